import type { Insertable } from 'kysely';
import type { Tables, Tx } from '../store/index.ts';
import type { Gap } from './gaps.ts';

export type Surface = 'completions' | 'parity' | 'bench';
/** A row without `endpoint_id`, which the feed adds. */
export type RowOf<S extends Surface> = Omit<Insertable<Tables[S]>, 'endpoint_id'>;
export type FeedRow = { readonly [S in Surface]: { readonly surface: S; readonly row: RowOf<S> } }[Surface];

/** The time that a surface's rows are ordered by. */
export const timeOf = (row: FeedRow['row']): string => ('started_at' in row ? row.started_at : row.at);

/** Writes rows and gaps. Existing rows are skipped: they come from a transaction whose commit was not confirmed. */
export async function writeRows(
  tx: Tx,
  endpointId: string,
  rows: readonly FeedRow[],
  gaps: readonly Gap[],
): Promise<void> {
  const whose = { endpoint_id: endpointId };
  const of = <S extends Surface>(surface: S) =>
    rows.flatMap((one) => (one.surface === surface ? [{ ...(one.row as RowOf<S>), ...whose }] : []));
  const told = gaps.map(({ id, surface, reason, from, to, rows: dropped }) => ({
    id,
    ...whose,
    surface,
    from_at: from,
    to_at: to,
    rows: dropped,
    reason,
  }));
  const [completions, parity, bench] = [of('completions'), of('parity'), of('bench')];
  const insert = [
    completions.length > 0 && tx.insertInto('completions').values(completions),
    parity.length > 0 && tx.insertInto('parity').values(parity),
    bench.length > 0 && tx.insertInto('bench').values(bench),
    told.length > 0 && tx.insertInto('feed_gaps').values(told),
  ];
  for (const one of insert) if (one) await one.onConflict((conflict) => conflict.doNothing()).execute();
}

/** Null for a value that is unknown or not finite. */
export const figure = (value: number | undefined): number | null =>
  value === undefined || !Number.isFinite(value) ? null : value;

/** The maximum; null when the list is empty or a value is not finite. */
export const worst = (values: readonly number[]): number | null =>
  values.length === 0 ? null : figure(values.reduce((most, one) => Math.max(most, one)));

/** Limits a text of a client or provider to 200 well-formed characters. */
export const name = (text: string | undefined): string | null => text?.slice(0, 200).toWellFormed() ?? null;
