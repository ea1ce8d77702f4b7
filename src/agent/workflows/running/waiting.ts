import { AgentError } from '../../errors.ts';
import type { NewTurnEvent } from '../../shapes/turn-event.ts';
import { withdraw } from './questions.ts';
import { changeRun } from './rows.ts';
import type { Segment } from './segment.ts';

/**
 * Tracks the wait of a running step for the decision on a change that its agent staged. During this wait a cancellation
 * takes effect at once and withdraws the change, because nothing else is in progress.
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

  /** Aborted when a cancellation ends the step. */
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

  /** Ends the wait: the next event shows that the change was decided. */
  async over(event: NewTurnEvent): Promise<void> {
    if (this.#pending === undefined || event.type === 'staged') return;
    this.#pending = undefined;
    const { world, row } = this.#segment;
    await world.store.transaction((tx) => changeRun(tx, row.id, ['running'], { waiting_on: null }));
  }

  /** Ends the attempt, and withdraws a change that still waits. */
  async end(): Promise<void> {
    this.#unlisten();
    const { world, stopping } = this.#segment;
    // A stopping host may be killed at any time; its next start withdraws remaining changes.
    if (this.#pending === undefined || stopping.aborted) return;
    await withdraw(world, this.#pending, 'host', `the step '${this.#step}' has ended`);
  }

  async #cancel(): Promise<void> {
    const { orders, row, world } = this.#segment;
    const { cancel: by } = orders;
    if (by === undefined || this.#pending === undefined || this.#cut.signal.aborted) return;
    // Decided in the meantime: the step continues to its end, and the run is cancelled then.
    if (!(await withdraw(world, this.#pending, by, `the run ${row.id} was cancelled`))) return;
    this.#cut.abort(new AgentError('conflict', 'run_cancelled', 'The run was cancelled.'));
  }

  readonly #fault = (error: unknown) => this.#segment.world.onFault('a cancellation', error);
}
