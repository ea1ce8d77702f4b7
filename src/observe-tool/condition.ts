import { type Condition, operators } from '../observe/query/shape.ts';
import type { ColumnType, Operator } from '../observe/types.ts';
import { nearest } from '../words/nearest.ts';

const signs: Readonly<Record<string, Operator>> = {
  '=': 'eq',
  '!=': 'ne',
  '<': 'lt',
  '<=': 'lte',
  '>': 'gt',
  '>=': 'gte',
};
const isOperator = (word: string): word is Operator => (operators as readonly string[]).includes(word);

/**
 * Parses a condition: `total_ms > 1000`, `wire in chat,messages`, `trace_id is_null`. The value is converted to the
 * type of the column; if that fails, the observe plane reports the error.
 * @param typeOf type of a column; undefined if there is no such column
 * @throws RangeError with the fault
 */
export function conditionOf(text: string, typeOf: (column: string) => ColumnType | undefined): Condition {
  const [, column, operator, rest = ''] =
    /^\s*(\w+)\s*(<=|>=|!=|=|<|>)(.*)$/s.exec(text) ?? /^\s*(\S+)\s+(\S+)(.*)$/s.exec(text) ?? [];
  if (column === undefined || operator === undefined)
    throw new RangeError("expected 'COLUMN OP VALUE', for example 'total_ms > 1000'");
  const op = signs[operator] ?? operator;
  if (!isOperator(op)) {
    const near = nearest(op, operators);
    throw new RangeError(
      `'${op}' is not an operator${near === undefined ? `: expected ${operators.join(', ')}` : ` (did you mean '${near}'?)`}`,
    );
  }
  const value = rest.trim();
  if (op === 'is_null') return { column, op, value: value === '' ? true : scalar(value, 'flag') };
  if (value === '') throw new RangeError(`${op} needs a value`);
  const type = typeOf(column) ?? 'text';
  const written = json(value);
  if (written !== undefined) return { column, op, value: written };
  if (op !== 'in' && op !== 'not_in') return { column, op, value: scalar(value, type) };
  return { column, op, value: value.split(',').map((each) => scalar(each.trim(), type)) };
}

type Scalar = string | number | boolean;

function scalar(text: string, type: ColumnType): Scalar {
  if (type === 'integer' || type === 'number') {
    const number = Number(text);
    return text !== '' && Number.isFinite(number) ? number : text;
  }
  if (type === 'flag') return { true: true, yes: true, false: false, no: false }[text] ?? text;
  return text;
}

/** Parses a JSON string or list, for texts with commas or with surrounding spaces. */
function json(text: string): Condition['value'] | undefined {
  if (!/^(?:".*"|\[.*\])$/s.test(text)) return undefined;
  try {
    return JSON.parse(text) as Condition['value'];
  } catch {
    return undefined;
  }
}
