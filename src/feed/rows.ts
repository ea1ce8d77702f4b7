import type { Insertable } from 'kysely';
import type { Tables, Tx } from '../store/index.ts';
import type { Gap } from './gaps.ts';

export type Surface = 'completions' | 'spans' | 'parity' | 'bench';
/** A row without `endpoint_id`, which the feed adds. */
export type SurfaceRow<S extends Surface> = Omit<Insertable<Tables[S]>, 'endpoint_id'>;
export type ObserveRow = {
  readonly [S in Surface]: { readonly surface: S; readonly row: SurfaceRow<S> };
}[Surface];

/** The time that a surface's rows are ordered by. */
export const rowTime = (row: ObserveRow['row']): string => ('started_at' in row ? row.started_at : row.at);

/** Writes rows and gaps. Existing rows are skipped: they come from a transaction whose commit was not confirmed. */
export async function writeRows(
  tx: Tx,
  endpointId: string,
  rows: readonly ObserveRow[],
  gaps: readonly Gap[],
): Promise<void> {
  const endpoint = { endpoint_id: endpointId };
  const rowsOf = <S extends Surface>(surface: S) =>
    rows.flatMap((one) => (one.surface === surface ? [{ ...(one.row as SurfaceRow<S>), ...endpoint }] : []));
  const gapRows = gaps.map(({ id, surface, reason, from, to, rows: dropped }) => ({
    id,
    ...endpoint,
    surface,
    from_at: from,
    to_at: to,
    rows: dropped,
    reason,
  }));
  const [completions, spans, parity, bench] = [
    rowsOf('completions'),
    rowsOf('spans'),
    rowsOf('parity'),
    rowsOf('bench'),
  ];
  const inserts = [
    completions.length > 0 && tx.insertInto('completions').values(completions),
    spans.length > 0 && tx.insertInto('spans').values(spans),
    parity.length > 0 && tx.insertInto('parity').values(parity),
    bench.length > 0 && tx.insertInto('bench').values(bench),
    gapRows.length > 0 && tx.insertInto('feed_gaps').values(gapRows),
  ];
  for (const one of inserts) if (one) await one.onConflict((conflict) => conflict.doNothing()).execute();
}

/** Null for a value that is unknown or not finite. */
export const finiteOrNull = (value: number | undefined): number | null =>
  value === undefined || !Number.isFinite(value) ? null : value;

/** The maximum; null when the list is empty or a value is not finite. */
export const maxOrNull = (values: readonly number[]): number | null =>
  values.length === 0 ? null : finiteOrNull(values.reduce((most, one) => Math.max(most, one)));

/** Limits a text of a client or provider to 200 well-formed characters. */
export const truncateText = (text: string | undefined): string | null =>
  text?.slice(0, 200).toWellFormed() ?? null;
