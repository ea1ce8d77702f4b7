import { StoreError } from '../../store/index.ts';
import { sleep } from '../../util/sleep.ts';
import { AgentError } from '../errors.ts';
import type { ApplyOutcome } from './apply-change.ts';
import type { PendingStore } from './pending-store.ts';
import type { PendingRow } from './rows.ts';

/** Delays between attempts to store an outcome, in ms. */
const retryDelaysMs = [100, 400, 1500];

/** Stores outcomes of changes, and keeps those in memory that the database did not accept. */
export class OutcomeRecorder {
  readonly #pendingStore: PendingStore;
  readonly #unrecordedOutcome = new Map<string, { row: PendingRow; outcome: ApplyOutcome }>();

  constructor(pendingStore: PendingStore) {
    this.#pendingStore = pendingStore;
  }

  /** @throws AgentError `unavailable`, `not_recorded`: the change has ended, but its outcome is not stored yet */
  async record(row: PendingRow, outcome: ApplyOutcome): Promise<void> {
    this.#unrecordedOutcome.set(row.id, { row, outcome });
    for (const delayMs of [...retryDelaysMs, undefined]) {
      try {
        await this.#pendingStore.storeOutcome(row, outcome);
        this.#unrecordedOutcome.delete(row.id);
        return;
      } catch (error) {
        if (!(error instanceof StoreError)) throw error;
        if (delayMs === undefined) throw notRecorded(row, outcome, error);
        await sleep(delayMs);
      }
    }
  }

  unrecordedOutcome(id: string): ApplyOutcome | undefined {
    return this.#unrecordedOutcome.get(id)?.outcome;
  }
}

function notRecorded({ id }: PendingRow, { state }: ApplyOutcome, cause: StoreError): AgentError {
  const description = { applied: 'was applied', staged: 'was not applied', failed: 'failed' }[state];
  const message = `${id} ${description}, but that could not be recorded: ${cause.message}. It will be recorded when the database accepts it.`;
  return new AgentError('unavailable', 'not_recorded', message, { cause });
}
