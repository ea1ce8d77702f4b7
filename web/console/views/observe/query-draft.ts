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

type UnknownRecord = Readonly<Record<string, unknown>>;
const isRecord = (value: unknown): value is UnknownRecord => typeof value === 'object' && value !== null;
const arrayOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? (value as unknown[]) : []);
const stringOf = (value: unknown): string => (typeof value === 'string' ? value : '');

/** Converts a query, possibly written by hand, to a draft. Members that the form does not have are dropped. */
export function draftOf(query: unknown): Draft {
  const record = isRecord(query) ? query : {};
  const objects = (name: string) =>
    arrayOf(record[name]).map(
      (element): UnknownRecord => (isRecord(element) ? element : { column: element }),
    );
  const hasGroups = record['group_by'] !== undefined || record['aggregate'] !== undefined;
  return {
    surface: stringOf(record['surface']),
    shape: hasGroups ? 'groups' : 'rows',
    select: arrayOf(record['select']).map(stringOf),
    where: objects('where').map((one) => ({
      column: stringOf(one['column']),
      op: stringOf(one['op']),
      value: valueText(one['value']),
    })),
    group_by: objects('group_by').map((one) => ({
      column: stringOf(one['column']),
      bucket: stringOf(one['bucket']),
    })),
    aggregate: objects('aggregate').map((one) => ({
      fn: stringOf(one['fn']),
      column: stringOf(one['column']),
      as: stringOf(one['as']),
    })),
    order_by: objects('order_by').map((one) => ({
      column: stringOf(one['column']),
      direction: stringOf(one['direction']) || 'asc',
    })),
    limit: record['limit'] === undefined ? '' : valueText(record['limit']),
  };
}

/** Text of a value: lists of simple values are joined with commas, other lists are JSON. */
function valueText(value: unknown): string {
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
  if (limit.trim() !== '') query['limit'] = numberOrText(limit);
  return query as unknown as Query;
}

type Value = string | number | boolean;

function valueOf(text: string, op: string, type: SurfaceColumn['type'] | undefined): Value | Value[] {
  const convert = (value: string): Value => {
    if (type === 'flag') return value === 'true' || (value === 'false' ? false : value);
    return type === 'integer' || type === 'number' ? numberOrText(value) : value;
  };
  if (op === 'is_null') return text !== 'false';
  if (op !== 'in' && op !== 'not_in') return convert(text);
  if (text.trim().startsWith('['))
    try {
      return JSON.parse(text) as Value[];
    } catch {
      // Not JSON: plain text that starts with a bracket.
    }
  return text
    .split(',')
    .map((value) => value.trim())
    .filter((value) => value !== '')
    .map(convert);
}

const numberOrText = (text: string): Value => {
  const value = text.trim() === '' ? Number.NaN : Number(text);
  return Number.isFinite(value) ? value : text;
};

/** Column names of the result, for `order_by`. */
export function resultColumnNames(draft: Draft, columns: readonly SurfaceColumn[]): string[] {
  if (draft.shape === 'rows') return columns.map(({ name }) => name);
  return [
    ...draft.group_by.map(({ column }) => column),
    ...draft.aggregate.map(({ fn, column, as }) => as || (column === '' ? fn : `${fn}_${column}`)),
  ].filter((name) => name !== '');
}
