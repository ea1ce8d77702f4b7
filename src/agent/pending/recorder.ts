import { StoreError } from '../../store/index.ts';
import { pause } from '../../util/pause.ts';
import { AgentError } from '../errors.ts';
import type { Ending } from './applying.ts';
import type { PendingLedger } from './ledger.ts';
import type { PendingRow } from './rows.ts';

/** Delays between attempts to store an outcome, in ms. */
const waits = [100, 400, 1500];

/** Stores outcomes of changes, and keeps those in memory that the database did not accept. */
export class Recorder {
  readonly #ledger: PendingLedger;
  readonly #unrecorded = new Map<string, { row: PendingRow; ending: Ending }>();

  constructor(ledger: PendingLedger) {
    this.#ledger = ledger;
  }

  /** @throws AgentError `unavailable`, `not_recorded`: the change has ended, but its outcome is not stored yet */
  async record(row: PendingRow, ending: Ending): Promise<void> {
    this.#unrecorded.set(row.id, { row, ending });
    for (const wait of [...waits, undefined]) {
      try {
        await this.#ledger.settle(row, ending);
        this.#unrecorded.delete(row.id);
        return;
      } catch (error) {
        if (!(error instanceof StoreError)) throw error;
        if (wait === undefined) throw notRecorded(row, ending, error);
        await pause(wait);
      }
    }
  }

  unrecorded(id: string): Ending | undefined {
    return this.#unrecorded.get(id)?.ending;
  }
}

function notRecorded({ id }: PendingRow, { state }: Ending, cause: StoreError): AgentError {
  const ended = { applied: 'was applied', staged: 'was not applied', failed: 'failed' }[state];
  const message = `${id} ${ended}, but that could not be recorded: ${cause.message}. It will be recorded when the database accepts it.`;
  return new AgentError('unavailable', 'not_recorded', message, { cause });
}
