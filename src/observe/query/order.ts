import type { Column, Surface } from '../types.ts';
import type { BucketName } from './shape.ts';
import type { Answered, Order } from './types.ts';

export function answered(column: Column, bucket?: BucketName): Answered {
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
  { grouped, groups }: { readonly grouped: boolean; readonly groups: readonly Answered[] },
  asked: readonly Order[],
): Order[] {
  const last = asked.at(-1)?.descending;
  const rest = grouped
    ? groups.map((by) => ({ by, descending: last ?? by.type === 'time' }))
    : [time, ...key].flatMap((name) => {
        const column = columns.find((one) => one.name === name);
        return column ? [{ by: answered(column), descending: last ?? true }] : [];
      });
  return [...asked, ...rest.filter(({ by }) => !asked.some((one) => one.by.name === by.name))];
}
