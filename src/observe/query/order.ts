import type { Column, Surface } from '../types.ts';
import type { BucketName } from './shape.ts';
import type { OutputColumn, Order } from './types.ts';

export function toOutputColumn(column: Column, bucket?: BucketName): OutputColumn {
  const { name, type, provenance, unit, required } = column;
  const of = { kind: 'column', column, ...(bucket === undefined ? {} : { bucket }) } as const;
  return {
    name,
    type,
    ...(unit === undefined ? {} : { unit }),
    provenance,
    required: required === true,
    of,
  };
}

/** The requested order, followed by columns that make it unique. Paging needs a unique order. */
export function completeOrder(
  { columns, time, key }: Surface,
  { grouped, groups }: { readonly grouped: boolean; readonly groups: readonly OutputColumn[] },
  requested: readonly Order[],
): Order[] {
  const last = requested.at(-1)?.descending;
  const rest = grouped
    ? groups.map((by) => ({ by, descending: last ?? by.type === 'time' }))
    : [time, ...key].flatMap((name) => {
        const column = columns.find((one) => one.name === name);
        return column ? [{ by: toOutputColumn(column), descending: last ?? true }] : [];
      });
  return [...requested, ...rest.filter(({ by }) => !requested.some((one) => one.by.name === by.name))];
}
