import type { GatewayStore } from '../store/index.ts';
import { EnvelopeError, type MasterKeys, rewrapDataKey } from './envelope.ts';
import { associatedDataOf, decryptRecord } from './credential-records.ts';
import type { AccessTables, CredentialRow } from './tables.ts';

export interface RotationResult {
  /** Records that were moved to the first master key. */
  readonly rewrapped: number;
  /** Records that already used it, and records without a key. */
  readonly current: number;
  /** One sentence for each record that no master key decrypts, with its account and provider. */
  readonly faults: readonly string[];
}

const batchSize = 100;

/**
 * Re-encrypts the data key of every record with the first master key, and checks that the record can be decrypted. Works in
 * atomic batches: it can be interrupted and repeated at any time, while other processes read and write. Secrets and data
 * keys do not change.
 */
export async function rotateMasterKey(store: GatewayStore, masterKeys: MasterKeys): Promise<RotationResult> {
  let [rewrapped, current] = [0, 0];
  const faults: string[] = [];
  for (let lastId = ''; ; ) {
    const rows = await store.read((db) =>
      db
        .withTables<AccessTables>()
        .selectFrom('gateway_credentials')
        .selectAll()
        .where('id', '>', lastId)
        .orderBy('id')
        .limit(batchSize)
        .execute(),
    );
    const last = rows.at(-1);
    if (last === undefined) return { rewrapped, current, faults };
    lastId = last.id;
    const updates: {
      readonly row: CredentialRow;
      readonly columns: NonNullable<ReturnType<typeof rewrapDataKey>>;
    }[] = [];
    for (const row of rows) {
      try {
        const columns = rewrapRecord(masterKeys, row);
        if (columns === undefined) current++;
        else updates.push({ row, columns });
      } catch (error) {
        if (!(error instanceof EnvelopeError)) throw error;
        faults.push(
          `The record ${row.id} (account ${row.account_id}, provider ${row.provider}) cannot be decrypted: ${error.message}.`,
        );
      }
    }
    if (updates.length > 0) rewrapped += await updateRecords(store, updates);
  }
}

function rewrapRecord(masterKeys: MasterKeys, row: CredentialRow) {
  if (row.alg === 'none') {
    decryptRecord(masterKeys, row);
    return undefined;
  }
  return rewrapDataKey(masterKeys, associatedDataOf(row), { ...row, alg: row.alg });
}

/** @returns the number of updated records; the others were replaced, removed or rewrapped by another process meanwhile */
const updateRecords = (
  store: GatewayStore,
  updates: readonly {
    readonly row: CredentialRow;
    readonly columns: Pick<CredentialRow, 'kek_id' | 'wrapped_key'>;
  }[],
): Promise<number> =>
  store.transaction(async (tx) => {
    let changed = 0;
    for (const { row, columns } of updates) {
      const { numUpdatedRows } = await tx
        .withTables<AccessTables>()
        .updateTable('gateway_credentials')
        .set(columns)
        .where('id', '=', row.id)
        .where('wrapped_key', '=', row.wrapped_key)
        .executeTakeFirstOrThrow();
      changed += Number(numUpdatedRows);
    }
    return changed;
  });
