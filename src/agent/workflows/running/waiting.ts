import { AgentError } from '../../errors.ts';
import type { NewTurnEvent } from '../../shapes/turn-event.ts';
import { withdraw } from './questions.ts';
import { changeRun } from './rows.ts';
import type { Segment } from './segment.ts';

/**
 * What a step at work waits for a person with: changes that its agent staged. While it does, nothing is in progress
 * that a cancellation would tear, so it happens at once, and nobody is asked any more.
 */
export class Waiting {
  readonly #segment: Segment;
  readonly #step: string;
  readonly #cut = new AbortController();
  readonly #unlisten: () => void;
  #pending: string | undefined;

  constructor(segment: Segment, step: string) {
    this.#segment = segment;
    this.#step = step;
    this.#unlisten = segment.orders.listen(() => void this.#cancel().catch(this.#fault));
  }

  /** Aborted when the step is to end because of a cancellation. */
  get cut(): AbortSignal {
    return this.#cut.signal;
  }

  async begin(pendingId: string): Promise<void> {
    const { writer, row } = this.#segment;
    const event = {
      type: 'step_waiting',
      step: this.#step,
      waiting_on: 'approval',
      pending_id: pendingId,
    } as const;
    await writer.appendWith(event, (tx) => changeRun(tx, row.id, ['running'], { waiting_on: 'approval' }));
    this.#pending = pendingId;
    await this.#cancel();
  }

  /** An event came: the decision is there. */
  async over(event: NewTurnEvent): Promise<void> {
    if (this.#pending === undefined || event.type === 'staged') return;
    this.#pending = undefined;
    const { world, row } = this.#segment;
    await world.store.transaction((tx) => changeRun(tx, row.id, ['running'], { waiting_on: null }));
  }

  /** The attempt is over; nobody is left who waits. */
  async end(): Promise<void> {
    this.#unlisten();
    const { world, stopping } = this.#segment;
    // A host that stops may be killed any moment; the next start looks for what was left behind.
    if (this.#pending === undefined || stopping.aborted) return;
    await withdraw(world, this.#pending, 'host', `the step '${this.#step}' is over`);
  }

  async #cancel(): Promise<void> {
    const { orders, row, world } = this.#segment;
    const { cancel: by } = orders;
    if (by === undefined || this.#pending === undefined || this.#cut.signal.aborted) return;
    // Decided meanwhile: the change is made or not, the step goes on to its end, and the run is cancelled then.
    if (!(await withdraw(world, this.#pending, by, `the run ${row.id} was cancelled`))) return;
    this.#cut.abort(new AgentError('conflict', 'run_cancelled', 'The run was cancelled.'));
  }

  readonly #fault = (error: unknown) => this.#segment.world.onFault('a cancellation', error);
}
