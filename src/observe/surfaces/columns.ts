import type { Column, ColumnType, Provenance, Sql } from '../types.ts';
import { sqlTemplate } from './sql.ts';

type ColumnOptions = Partial<Pick<Column, 'unit' | 'required' | 'readOnly' | 'sql'>>;

const columnFactory =
  (type: ColumnType) =>
  (name: string, provenance: Provenance, description: string, more: ColumnOptions = {}): Column => ({
    name,
    type,
    provenance,
    description,
    ...more,
  });

export const text = columnFactory('text');
export const integer = columnFactory('integer');
export const number = columnFactory('number');
export const time = columnFactory('time');
export const flag = columnFactory('flag');
export const json = columnFactory('json');

export const required = { required: true } as const;
export const tokens = { unit: 'tokens' } as const;
export const ms = { unit: 'ms' } as const;
export const nanousd = { unit: 'nanousd' } as const;

/** Several hosts can share a database. */
export const endpointColumn = text('endpoint_id', 'derived', 'Host that the row belongs to.', required);

/** Counts by the host itself and counts reported by another gateway are in separate columns. */
export const measuredValue = (figure: Sql, engine: string): Sql =>
  sqlTemplate`cast(case when ${engine} = 'gateway' then null else ${figure} end as ${wholeNumber})`;
export const claimedValue = (figure: Sql, engine: string): Sql =>
  sqlTemplate`cast(case when ${engine} = 'gateway' then ${figure} end as ${wholeNumber})`;
const wholeNumber = { sqlite: 'integer', postgres: 'bigint' };

/** Token columns of work whose model is resident or at a gateway. */
export const tokenColumns = (engine: string, prompts: string, answers: string): Column[] => [
  integer('prompt_tokens', 'measured', `${prompts}, counted by the host.`, {
    ...tokens,
    sql: measuredValue('t.prompt_tokens', engine),
  }),
  integer('completion_tokens', 'measured', `${answers}, counted by the host.`, {
    ...tokens,
    sql: measuredValue('t.completion_tokens', engine),
  }),
  integer('prompt_tokens_claimed', 'claimed', `${prompts}, reported by the gateway.`, {
    ...tokens,
    sql: claimedValue('t.prompt_tokens', engine),
  }),
  integer('completion_tokens_claimed', 'claimed', `${answers}, reported by the gateway.`, {
    ...tokens,
    sql: claimedValue('t.completion_tokens', engine),
  }),
];
