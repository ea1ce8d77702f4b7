import { type Condition, operators } from '../observe/query/shape.ts';
import type { ColumnType, Operator } from '../observe/types.ts';
import { nearestWord } from '../words/nearest.ts';

const operatorSigns: Readonly<Record<string, Operator>> = {
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
export function parseCondition(text: string, typeOf: (column: string) => ColumnType | undefined): Condition {
  const [, column, operator, valueText = ''] =
    /^\s*(\w+)\s*(<=|>=|!=|=|<|>)(.*)$/s.exec(text) ?? /^\s*(\S+)\s+(\S+)(.*)$/s.exec(text) ?? [];
  if (column === undefined || operator === undefined)
    throw new RangeError("expected 'COLUMN OP VALUE', for example 'total_ms > 1000'");
  const op = operatorSigns[operator] ?? operator;
  if (!isOperator(op)) {
    const near = nearestWord(op, operators);
    throw new RangeError(
      `'${op}' is not an operator${near === undefined ? `: expected ${operators.join(', ')}` : ` (did you mean '${near}'?)`}`,
    );
  }
  const value = valueText.trim();
  if (op === 'is_null') return { column, op, value: value === '' ? true : parseScalar(value, 'flag') };
  if (value === '') throw new RangeError(`${op} needs a value`);
  const type = typeOf(column) ?? 'text';
  const jsonValue = parseJsonValue(value);
  if (jsonValue !== undefined) return { column, op, value: jsonValue };
  if (op !== 'in' && op !== 'not_in') return { column, op, value: parseScalar(value, type) };
  return { column, op, value: value.split(',').map((each) => parseScalar(each.trim(), type)) };
}

type Scalar = string | number | boolean;

function parseScalar(text: string, type: ColumnType): Scalar {
  if (type === 'integer' || type === 'number') {
    const number = Number(text);
    return text !== '' && Number.isFinite(number) ? number : text;
  }
  if (type === 'flag') return { true: true, yes: true, false: false, no: false }[text] ?? text;
  return text;
}

/** Parses a JSON string or list, for texts with commas or with surrounding spaces. */
function parseJsonValue(text: string): Condition['value'] | undefined {
  if (!/^(?:".*"|\[.*\])$/s.test(text)) return undefined;
  try {
    return JSON.parse(text) as Condition['value'];
  } catch {
    return undefined;
  }
}
