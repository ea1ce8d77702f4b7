import { AgentError } from '../../errors.ts';
import type { NewTurnEvent } from '../../shapes/turn-event.ts';
import { discardStaged } from './questions.ts';
import { updateRun } from './rows.ts';
import { type Segment, stillWaiting } from './segment.ts';

/**
 * Tracks the wait of a running step for the decision on a change that its agent staged. During this wait a cancellation
 * takes effect at once and withdraws the change, because nothing else is in progress.
 */
export class DecisionWait {
  readonly #segment: Segment;
  readonly #step: string;
  readonly #cancelled = new AbortController();
  readonly #removeListener: () => void;
  #pendingId: string | undefined;

  constructor(segment: Segment, step: string) {
    this.#segment = segment;
    this.#step = step;
    this.#removeListener = segment.requests.listen(() => void this.#cancel().catch(this.#reportFault));
  }

  /** Aborted when a cancellation ends the step. */
  get cancelled(): AbortSignal {
    return this.#cancelled.signal;
  }

  async begin(pendingId: string): Promise<void> {
    const { writer, row, services } = this.#segment;
    const wait = { step: this.#step, waiting_on: 'approval', pending_id: pendingId } as const;
    await writer.appendWith({ type: 'step_waiting', ...wait }, async (tx) => {
      const { id, workflow } = row;
      await updateRun(tx, id, ['running'], { waiting_on: 'approval' });
      await services.signals.emit(tx, 'run.waiting', { id, workflow, ...wait });
    });
    this.#pendingId = pendingId;
    this.#segment.waits.add(this.#step);
    await this.#cancel();
  }

  /** Ends the wait: the next event shows that the change was decided. */
  async onEvent(event: NewTurnEvent): Promise<void> {
    if (this.#pendingId === undefined || event.type === 'staged') return;
    this.#pendingId = undefined;
    const { services, row, waits } = this.#segment;
    waits.delete(this.#step);
    await services.store.transaction((tx) => updateRun(tx, row.id, ['running'], stillWaiting(this.#segment)));
  }

  /** Ends the attempt, and withdraws a change that still waits. */
  async end(): Promise<void> {
    this.#removeListener();
    this.#segment.waits.delete(this.#step);
    const { services, stopping } = this.#segment;
    // A stopping host may be killed at any time; its next start withdraws remaining changes.
    if (this.#pendingId === undefined || stopping.aborted) return;
    await discardStaged(services, this.#pendingId, 'host', `the step '${this.#step}' has ended`);
  }

  async #cancel(): Promise<void> {
    const { requests, row, services } = this.#segment;
    const { cancel: by } = requests;
    if (by === undefined || this.#pendingId === undefined || this.#cancelled.signal.aborted) return;
    // Decided in the meantime: the step continues to its end, and the run is cancelled then.
    if (!(await discardStaged(services, this.#pendingId, by, `the run ${row.id} was cancelled`))) return;
    this.#cancelled.abort(new AgentError('conflict', 'run_cancelled', 'The run was cancelled.'));
  }

  readonly #reportFault = (error: unknown) => this.#segment.services.onFault('a cancellation', error);
}
