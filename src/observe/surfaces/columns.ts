import type { Column, ColumnType, Provenance, Sql } from '../types.ts';
import { written } from './sql.ts';

type More = Partial<Pick<Column, 'unit' | 'required' | 'readOnly' | 'sql'>>;

const columnOf =
  (type: ColumnType) =>
  (name: string, provenance: Provenance, description: string, more: More = {}): Column => ({
    name,
    type,
    provenance,
    description,
    ...more,
  });

export const text = columnOf('text');
export const integer = columnOf('integer');
export const number = columnOf('number');
export const time = columnOf('time');
export const flag = columnOf('flag');
export const json = columnOf('json');

export const required = { required: true } as const;
export const tokens = { unit: 'tokens' } as const;
export const ms = { unit: 'ms' } as const;
export const nanousd = { unit: 'nanousd' } as const;

/** Several hosts can share a database. */
export const endpoint = text('endpoint_id', 'derived', 'Host that the row belongs to.', required);

/** Counts by the host itself and counts reported by another gateway are in separate columns. */
export const ownFigure = (figure: Sql, engine: string): Sql =>
  written`cast(case when ${engine} = 'gateway' then null else ${figure} end as ${wholeNumber})`;
export const othersFigure = (figure: Sql, engine: string): Sql =>
  written`cast(case when ${engine} = 'gateway' then ${figure} end as ${wholeNumber})`;
const wholeNumber = { sqlite: 'integer', postgres: 'bigint' };

/** Token columns of work whose model is resident or at a gateway. */
export const tokensOf = (engine: string, prompts: string, answers: string): Column[] => [
  integer('prompt_tokens', 'measured', `${prompts}, counted by the host.`, {
    ...tokens,
    sql: ownFigure('t.prompt_tokens', engine),
  }),
  integer('completion_tokens', 'measured', `${answers}, counted by the host.`, {
    ...tokens,
    sql: ownFigure('t.completion_tokens', engine),
  }),
  integer('prompt_tokens_claimed', 'claimed', `${prompts}, reported by the gateway.`, {
    ...tokens,
    sql: othersFigure('t.prompt_tokens', engine),
  }),
  integer('completion_tokens_claimed', 'claimed', `${answers}, reported by the gateway.`, {
    ...tokens,
    sql: othersFigure('t.completion_tokens', engine),
  }),
];
