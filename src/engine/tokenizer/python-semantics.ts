/**
 * Chat templates are written for Python's Jinja, and @huggingface/jinja differs from it: an object's key hides the
 * method of the same name, and null, lists and undefined are rejected in many places. This file rewrites a parsed
 * template so that it calls the functions below instead.
 */
import { strftime } from './strftime.ts';

interface Node {
  type: string;
  [member: string]: unknown;
}

const functionNames = {
  text: 'lathe_text',
  contains: 'lathe_contains',
  lacks: 'lathe_lacks',
  isKey: 'lathe_is_key',
  time: 'lathe_strftime_now',
};

/** A value that the Jinja library passes to a function: list and object members are still wrapped. */
type RuntimeValue =
  | string
  | number
  | boolean
  | null
  | undefined
  | readonly WrappedValue[]
  | ReadonlyMap<string, WrappedValue>;
interface WrappedValue {
  readonly type: string;
  readonly value: RuntimeValue;
}

const isList = (value: RuntimeValue): value is readonly WrappedValue[] => Array.isArray(value);

function contains(item: RuntimeValue, container: RuntimeValue): boolean {
  if (typeof container === 'string') return typeof item === 'string' && container.includes(item);
  if (isList(container)) return container.some(({ value }) => value === item);
  return container instanceof Map && container.has(item);
}

/** Functions that rewritten templates call. */
export const pythonFunctions = {
  [functionNames.text]: pythonText,
  [functionNames.contains]: contains,
  [functionNames.lacks]: (item: RuntimeValue, container: RuntimeValue) => !contains(item, container),
  [functionNames.isKey]: (key: RuntimeValue) => typeof key === 'string' || typeof key === 'number',
  [functionNames.time]: (pattern: string) => strftime(new Date(), pattern),
};

/**
 * Converts a value like Python's `str`; undefined becomes an empty text, as in Jinja.
 * @param isNone distinguishes null from undefined, which functions receive alike
 */
function pythonText(value: RuntimeValue, isNone = false): string {
  if (value === undefined || value === null) return isNone ? 'None' : '';
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  if (typeof value === 'string') return value;
  if (typeof value === 'number') return String(value);
  if (isList(value)) return `[${value.map(toRepr).join(', ')}]`;
  const members = [...value].map(([key, item]) => `${quotePython(key)}: ${toRepr(item)}`);
  return `{${members.join(', ')}}`;
}

function toRepr({ type, value }: WrappedValue): string {
  if (typeof value === 'string') return quotePython(value);
  if (typeof value === 'number' && type === 'FloatValue' && Number.isInteger(value)) return `${value}.0`;
  return pythonText(value, type === 'NullValue');
}

function quotePython(text: string): string {
  const escaped = text
    .replaceAll('\\', '\\\\')
    .replaceAll('\n', '\\n')
    .replaceAll('\r', '\\r')
    .replaceAll('\t', '\\t');
  if (text.includes("'") && !text.includes('"')) return `"${escaped}"`;
  return `'${escaped.replaceAll("'", "\\'")}'`;
}

/** Rewrites a parsed template in place so that it behaves like Python's Jinja. */
export function applyPythonSemantics(program: object): void {
  rewriteMembers(program as Node);
}

function rewriteMembers(node: Node): void {
  for (const [name, value] of Object.entries(node)) {
    // The target of an assignment is not evaluated.
    if (name === 'assignee') continue;
    const isBody = ['body', 'alternate', 'defaultBlock'].includes(name);
    node[name] = isBody && Array.isArray(value) ? value.map(rewriteStatement) : rewriteValue(value);
  }
}

function rewriteValue(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(rewriteValue);
  if (value instanceof Map)
    return new Map([...value].map(([key, item]) => [rewriteValue(key), rewriteValue(item)]));
  const node = value as Node;
  rewriteMembers(node);
  return rewriteRules[node.type]?.(node) ?? node;
}

const identifier = (value: string): Node => ({ type: 'Identifier', value });
const call = (name: string, ...args: unknown[]): Node => ({
  type: 'CallExpression',
  callee: identifier(name),
  args,
});

/** Whether a node is a variable or a member of one. Other nodes must be evaluated only once: they may call a macro. */
const isVariable = ({ type }: Node) => ['Identifier', 'MemberExpression', 'SelectExpression'].includes(type);

function toTextNode(value: unknown): Node {
  const node = value as Node;
  const isNone = { type: 'TestExpression', operand: node, negate: false, test: identifier('none') };
  return isVariable(node) ? call(functionNames.text, node, isNone) : call(functionNames.text, node);
}

/** Rewrites a printed expression so that null and lists can be printed. */
function rewriteStatement(value: unknown): unknown {
  const node = rewriteValue(value) as Node;
  return isVariable(node) ? toTextNode(node) : node;
}

const mappingMethods = ['items', 'keys', 'values', 'get'];
/** Filters that convert their operand to text. */
const textFilters = ['upper', 'lower', 'capitalize', 'title', 'trim'];

const rewriteRules: Readonly<Record<string, (node: Node) => Node>> = {
  Identifier: (node) => (node['value'] === 'strftime_now' ? identifier(functionNames.time) : node),
  CallExpression(node) {
    const callee = node['callee'] as Node;
    const method = (callee['property'] as Node | undefined)?.['value'] as string;
    if (callee.type !== 'MemberExpression' || callee['computed'] || !mappingMethods.includes(method))
      return node;
    const filter = { ...node, callee: identifier(method) };
    return { type: 'FilterExpression', operand: callee['object'], filter };
  },
  FilterExpression(node) {
    const filter = node['filter'] as Node;
    if (filter.type !== 'Identifier') return node;
    const operand = toTextNode(node['operand']);
    if (filter['value'] === 'string') return operand;
    return textFilters.includes(filter['value'] as string) ? { ...node, operand } : node;
  },
  BinaryExpression(node) {
    const { left, right } = node;
    const operator = (node['operator'] as { value: string }).value;
    if (operator === 'in') return call(functionNames.contains, left, right);
    if (operator === 'not in') return call(functionNames.lacks, left, right);
    if (operator !== '~') return node;
    return { ...node, left: toTextNode(left), right: toTextNode(right) };
  },
  MemberExpression(node) {
    const key = node['property'] as Node;
    if (!node['computed'] || !isVariable(key)) return node;
    return { type: 'SelectExpression', lhs: node, test: call(functionNames.isKey, key) };
  },
};
