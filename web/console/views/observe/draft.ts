import type { Query, SurfaceColumn } from './types.ts';

/** A query as held by the form; values stay text until they are sent. */
export interface Draft {
  readonly surface: string;
  readonly shape: 'rows' | 'groups';
  readonly select: readonly string[];
  readonly where: readonly { readonly column: string; readonly op: string; readonly value: string }[];
  readonly group_by: readonly { readonly column: string; readonly bucket: string }[];
  readonly aggregate: readonly { readonly fn: string; readonly column: string; readonly as: string }[];
  readonly order_by: readonly { readonly column: string; readonly direction: string }[];
  readonly limit: string;
}

export const emptyDraft = (surface: string): Draft => ({
  surface,
  shape: 'rows',
  select: [],
  where: [],
  group_by: [],
  aggregate: [],
  order_by: [],
  limit: '',
});

type Open = Readonly<Record<string, unknown>>;
const isOpen = (value: unknown): value is Open => typeof value === 'object' && value !== null;
const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? (value as unknown[]) : []);
const text = (value: unknown): string => (typeof value === 'string' ? value : '');

/** Converts a query, possibly written by hand, to a draft. Members that the form does not have are dropped. */
export function draftOf(query: unknown): Draft {
  const of = isOpen(query) ? query : {};
  const objects = (name: string) =>
    listOf(of[name]).map((element): Open => (isOpen(element) ? element : { column: element }));
  const hasGroups = of['group_by'] !== undefined || of['aggregate'] !== undefined;
  return {
    surface: text(of['surface']),
    shape: hasGroups ? 'groups' : 'rows',
    select: listOf(of['select']).map(text),
    where: objects('where').map((one) => ({
      column: text(one['column']),
      op: text(one['op']),
      value: shown(one['value']),
    })),
    group_by: objects('group_by').map((one) => ({
      column: text(one['column']),
      bucket: text(one['bucket']),
    })),
    aggregate: objects('aggregate').map((one) => ({
      fn: text(one['fn']),
      column: text(one['column']),
      as: text(one['as']),
    })),
    order_by: objects('order_by').map((one) => ({
      column: text(one['column']),
      direction: text(one['direction']) || 'asc',
    })),
    limit: of['limit'] === undefined ? '' : shown(of['limit']),
  };
}

/** Text of a value: lists of simple values are joined with commas, other lists are JSON. */
function shown(value: unknown): string {
  if (Array.isArray(value))
    return value.every(
      (one) => typeof one === 'number' || (typeof one === 'string' && !/[,[\]"]|^\s|\s$/.test(one)),
    )
      ? value.join(', ')
      : JSON.stringify(value);
  return typeof value === 'string' ? value : value === undefined ? '' : JSON.stringify(value);
}

/** The query to send. Values are converted to the types of their columns; the host reports those that cannot be. */
export function queryOf(draft: Draft, columns: readonly SurfaceColumn[]): Query {
  const { surface, shape, select, where, group_by, aggregate, order_by, limit } = draft;
  const typeOf = (name: string) => columns.find((column) => column.name === name)?.type;
  const query: Record<string, unknown> = { surface };
  if (shape === 'rows' && select.length > 0) query['select'] = select;
  if (where.length > 0)
    query['where'] = where.map(({ column, op, value }) => ({
      column,
      op,
      value: valueOf(value, op, typeOf(column)),
    }));
  if (shape === 'groups') {
    if (group_by.length > 0)
      query['group_by'] = group_by.map(({ column, bucket }) => (bucket === '' ? column : { column, bucket }));
    if (aggregate.length > 0)
      query['aggregate'] = aggregate.map(({ fn, column, as }) => ({
        fn,
        ...(column === '' ? {} : { column }),
        ...(as === '' ? {} : { as }),
      }));
  }
  if (order_by.length > 0) query['order_by'] = order_by;
  if (limit.trim() !== '') query['limit'] = numberOr(limit);
  return query as unknown as Query;
}

type Value = string | number | boolean;

function valueOf(typed: string, op: string, type: SurfaceColumn['type'] | undefined): Value | Value[] {
  const one = (value: string): Value => {
    if (type === 'flag') return value === 'true' || (value === 'false' ? false : value);
    return type === 'integer' || type === 'number' ? numberOr(value) : value;
  };
  if (op === 'is_null') return typed !== 'false';
  if (op !== 'in' && op !== 'not_in') return one(typed);
  if (typed.trim().startsWith('['))
    try {
      return JSON.parse(typed) as Value[];
    } catch {
      // Not JSON: plain text that starts with a bracket.
    }
  return typed
    .split(',')
    .map((value) => value.trim())
    .filter((value) => value !== '')
    .map(one);
}

const numberOr = (typed: string): Value => {
  const value = typed.trim() === '' ? Number.NaN : Number(typed);
  return Number.isFinite(value) ? value : typed;
};

/** Column names of the result, for `order_by`. */
export function answeredNames(draft: Draft, columns: readonly SurfaceColumn[]): string[] {
  if (draft.shape === 'rows') return columns.map(({ name }) => name);
  return [
    ...draft.group_by.map(({ column }) => column),
    ...draft.aggregate.map(({ fn, column, as }) => as || (column === '' ? fn : `${fn}_${column}`)),
  ].filter((name) => name !== '');
}
