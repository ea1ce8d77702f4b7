import type { Column, ColumnType, Operator, Provenance, ColumnDescription, Surface } from '../types.ts';
import { type AggregateName, type BucketName, buckets } from './shape.ts';

const operatorsByType: Readonly<Record<ColumnType, readonly Operator[]>> = {
  text: ['eq', 'ne', 'in', 'not_in', 'contains', 'starts_with', 'is_null'],
  integer: ['eq', 'ne', 'lt', 'lte', 'gt', 'gte', 'in', 'not_in', 'is_null'],
  number: ['eq', 'ne', 'lt', 'lte', 'gt', 'gte', 'in', 'not_in', 'is_null'],
  time: ['lt', 'lte', 'gt', 'gte', 'eq', 'is_null'],
  flag: ['eq', 'is_null'],
  json: ['is_null'],
};

const numericAggregates = [
  'count',
  'count_distinct',
  'sum',
  'avg',
  'min',
  'max',
  'p50',
  'p95',
  'p99',
] as const;
const aggregatesByType: Readonly<Record<ColumnType, readonly AggregateName[]>> = {
  text: ['count', 'count_distinct'],
  integer: numericAggregates,
  number: numericAggregates,
  time: ['count', 'count_distinct', 'min', 'max'],
  flag: ['count', 'count_distinct', 'sum', 'avg'],
  json: ['count'],
};

/** Whether a column can be ordered by and grouped by. */
export const isComparable = ({ type, readOnly }: Column): boolean => type !== 'json' && !readOnly;

export const operatorsFor = (column: Column): readonly Operator[] =>
  column.readOnly ? operatorsByType.json : operatorsByType[column.type];

export const aggregatesFor = (column: Column): readonly AggregateName[] =>
  column.readOnly ? aggregatesByType.json : aggregatesByType[column.type];

export const bucketsFor = ({ type }: Column): readonly BucketName[] => (type === 'time' ? buckets : []);

/** Descriptions of a surface's columns, with the operators and aggregates that each supports. */
export const describeColumns = ({ columns }: Surface): ColumnDescription[] =>
  columns.map((column) => ({
    name: column.name,
    type: column.type,
    ...(column.unit === undefined ? {} : { unit: column.unit }),
    provenance: column.provenance,
    nullable: !column.required,
    description: column.description,
    operators: operatorsFor(column),
    aggregates: aggregatesFor(column),
    ...(bucketsFor(column).length > 0 ? { buckets: bucketsFor(column) } : {}),
  }));

/** Type, unit and provenance of an aggregate's result. */
export function aggregateResult(
  fn: AggregateName,
  column: Column | undefined,
): { type: ColumnType; unit?: string; provenance: Provenance; required: boolean } {
  if (column === undefined || fn === 'count' || fn === 'count_distinct')
    return { type: 'integer', provenance: 'derived', required: true };
  const { provenance, type } = column;
  const unit = column.unit === undefined ? {} : { unit: column.unit };
  if (fn === 'min' || fn === 'max') return { type, ...unit, provenance, required: false };
  if (fn === 'sum')
    return { type: type === 'number' ? 'number' : 'integer', ...unit, provenance, required: false };
  return { type: 'number', ...unit, provenance, required: false };
}
