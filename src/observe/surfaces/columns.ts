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

/** Of several hosts that share a database. */
export const endpoint = text('endpoint_id', 'derived', 'The host that it is of.', required);

/** Whole numbers that the host counted itself, and those that another gateway says: never in one column. */
export const ownFigure = (figure: Sql, engine: string): Sql =>
  written`cast(case when ${engine} = 'gateway' then null else ${figure} end as ${wholeNumber})`;
export const othersFigure = (figure: Sql, engine: string): Sql =>
  written`cast(case when ${engine} = 'gateway' then ${figure} end as ${wholeNumber})`;
const wholeNumber = { sqlite: 'integer', postgres: 'bigint' };

/** Tokens of work whose model is the resident one, or a gateway's. */
export const tokensOf = (engine: string, prompts: string, answers: string): Column[] => [
  integer('prompt_tokens', 'measured', `${prompts}, as the host counted.`, {
    ...tokens,
    sql: ownFigure('t.prompt_tokens', engine),
  }),
  integer('completion_tokens', 'measured', `${answers}, as the host counted.`, {
    ...tokens,
    sql: ownFigure('t.completion_tokens', engine),
  }),
  integer('prompt_tokens_claimed', 'claimed', `${prompts}, as the gateway says.`, {
    ...tokens,
    sql: othersFigure('t.prompt_tokens', engine),
  }),
  integer('completion_tokens_claimed', 'claimed', `${answers}, as the gateway says.`, {
    ...tokens,
    sql: othersFigure('t.completion_tokens', engine),
  }),
];
