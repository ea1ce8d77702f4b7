import type { GatewayStore } from '../store/index.ts';
import { EnvelopeError, type MasterKeys, rewrap } from './envelope.ts';
import { belongingOf, secretOf } from './records.ts';
import type { AccessTables, CredentialRow } from './tables.ts';

export interface Rotation {
  /** Records that were moved to the first master key. */
  readonly rewrapped: number;
  /** Records that already used it, and records without a key. */
  readonly current: number;
  /** One sentence for each record that no master key decrypts, with its account and provider. */
  readonly faults: readonly string[];
}

const batch = 100;

/**
 * Re-encrypts the data key of every record with the first master key, and checks that the record can be decrypted. Works in
 * atomic batches: it can be interrupted and repeated at any time, while other processes read and write. Secrets and data
 * keys do not change.
 */
export async function rotate(store: GatewayStore, masters: MasterKeys): Promise<Rotation> {
  let [rewrapped, current] = [0, 0];
  const faults: string[] = [];
  for (let after = ''; ; ) {
    const rows = await store.read((db) =>
      db
        .withTables<AccessTables>()
        .selectFrom('gateway_credentials')
        .selectAll()
        .where('id', '>', after)
        .orderBy('id')
        .limit(batch)
        .execute(),
    );
    const last = rows.at(-1);
    if (last === undefined) return { rewrapped, current, faults };
    after = last.id;
    const wrapped: { readonly row: CredentialRow; readonly as: NonNullable<ReturnType<typeof rewrap>> }[] =
      [];
    for (const row of rows) {
      try {
        const as = wrappedAnew(masters, row);
        if (as === undefined) current++;
        else wrapped.push({ row, as });
      } catch (error) {
        if (!(error instanceof EnvelopeError)) throw error;
        faults.push(
          `The record ${row.id} (account ${row.account_id}, provider ${row.provider}) cannot be decrypted: ${error.message}.`,
        );
      }
    }
    if (wrapped.length > 0) rewrapped += await write(store, wrapped);
  }
}

function wrappedAnew(masters: MasterKeys, row: CredentialRow) {
  if (row.alg === 'none') {
    secretOf(masters, row);
    return undefined;
  }
  return rewrap(masters, belongingOf(row), { ...row, alg: row.alg });
}

/** @returns the number of updated records; the others were replaced, removed or rewrapped by another process meanwhile */
const write = (
  store: GatewayStore,
  wrapped: readonly {
    readonly row: CredentialRow;
    readonly as: Pick<CredentialRow, 'kek_id' | 'wrapped_key'>;
  }[],
): Promise<number> =>
  store.transaction(async (tx) => {
    let changed = 0;
    for (const { row, as } of wrapped) {
      const { numUpdatedRows } = await tx
        .withTables<AccessTables>()
        .updateTable('gateway_credentials')
        .set(as)
        .where('id', '=', row.id)
        .where('wrapped_key', '=', row.wrapped_key)
        .executeTakeFirstOrThrow();
      changed += Number(numUpdatedRows);
    }
    return changed;
  });
