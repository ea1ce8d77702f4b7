/**
 * Chat templates are written for Python's Jinja, and @huggingface/jinja differs from it: an object's key hides the
 * method of the same name, and null, lists and undefined are rejected in many places. This file rewrites a parsed
 * template so that it calls the functions below instead.
 */
import { format } from './strftime.ts';

interface Node {
  type: string;
  [member: string]: unknown;
}

const own = {
  text: 'lathe_text',
  contains: 'lathe_contains',
  lacks: 'lathe_lacks',
  isKey: 'lathe_is_key',
  time: 'lathe_strftime_now',
};

/** A value that the Jinja library passes to a function: list and object members are still wrapped. */
type Given = string | number | boolean | null | undefined | readonly Wrapped[] | ReadonlyMap<string, Wrapped>;
interface Wrapped {
  readonly type: string;
  readonly value: Given;
}

const isList = (value: Given): value is readonly Wrapped[] => Array.isArray(value);

function contains(one: Given, all: Given): boolean {
  if (typeof all === 'string') return typeof one === 'string' && all.includes(one);
  if (isList(all)) return all.some(({ value }) => value === one);
  return all instanceof Map && all.has(one);
}

/** Functions that rewritten templates call. */
export const pythonFunctions = {
  [own.text]: pythonText,
  [own.contains]: contains,
  [own.lacks]: (one: Given, all: Given) => !contains(one, all),
  [own.isKey]: (key: Given) => typeof key === 'string' || typeof key === 'number',
  [own.time]: (pattern: string) => format(new Date(), pattern),
};

/**
 * Converts a value like Python's `str`; undefined becomes an empty text, as in Jinja.
 * @param isNone distinguishes null from undefined, which functions receive alike
 */
function pythonText(value: Given, isNone = false): string {
  if (value === undefined || value === null) return isNone ? 'None' : '';
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  if (typeof value === 'string') return value;
  if (typeof value === 'number') return String(value);
  if (isList(value)) return `[${value.map(written).join(', ')}]`;
  const members = [...value].map(([key, one]) => `${quoted(key)}: ${written(one)}`);
  return `{${members.join(', ')}}`;
}

function written({ type, value }: Wrapped): string {
  if (typeof value === 'string') return quoted(value);
  if (typeof value === 'number' && type === 'FloatValue' && Number.isInteger(value)) return `${value}.0`;
  return pythonText(value, type === 'NullValue');
}

function quoted(text: string): string {
  const escaped = text
    .replaceAll('\\', '\\\\')
    .replaceAll('\n', '\\n')
    .replaceAll('\r', '\\r')
    .replaceAll('\t', '\\t');
  if (text.includes("'") && !text.includes('"')) return `"${escaped}"`;
  return `'${escaped.replaceAll("'", "\\'")}'`;
}

/** Rewrites a parsed template in place so that it behaves like Python's Jinja. */
export function withPythonSemantics(program: object): void {
  rewriteMembers(program as Node);
}

function rewriteMembers(node: Node): void {
  for (const [name, value] of Object.entries(node)) {
    // The target of an assignment is not evaluated.
    if (name === 'assignee') continue;
    const isBody = ['body', 'alternate', 'defaultBlock'].includes(name);
    node[name] = isBody && Array.isArray(value) ? value.map(statement) : rewritten(value);
  }
}

function rewritten(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(rewritten);
  if (value instanceof Map) return new Map([...value].map(([key, one]) => [rewritten(key), rewritten(one)]));
  const node = value as Node;
  rewriteMembers(node);
  return rules[node.type]?.(node) ?? node;
}

const identifier = (value: string): Node => ({ type: 'Identifier', value });
const call = (name: string, ...args: unknown[]): Node => ({
  type: 'CallExpression',
  callee: identifier(name),
  args,
});

/** Whether a node is a variable or a member of one. Other nodes must be evaluated only once: they may call a macro. */
const isPlain = ({ type }: Node) => ['Identifier', 'MemberExpression', 'SelectExpression'].includes(type);

function textOf(value: unknown): Node {
  const node = value as Node;
  const isNone = { type: 'TestExpression', operand: node, negate: false, test: identifier('none') };
  return isPlain(node) ? call(own.text, node, isNone) : call(own.text, node);
}

/** Rewrites a printed expression so that null and lists can be printed. */
function statement(value: unknown): unknown {
  const node = rewritten(value) as Node;
  return isPlain(node) ? textOf(node) : node;
}

const methods = ['items', 'keys', 'values', 'get'];
/** Filters that convert their operand to text. */
const ofTexts = ['upper', 'lower', 'capitalize', 'title', 'trim'];

const rules: Readonly<Record<string, (node: Node) => Node>> = {
  Identifier: (node) => (node['value'] === 'strftime_now' ? identifier(own.time) : node),
  CallExpression(node) {
    const callee = node['callee'] as Node;
    const method = (callee['property'] as Node | undefined)?.['value'] as string;
    if (callee.type !== 'MemberExpression' || callee['computed'] || !methods.includes(method)) return node;
    const filter = { ...node, callee: identifier(method) };
    return { type: 'FilterExpression', operand: callee['object'], filter };
  },
  FilterExpression(node) {
    const filter = node['filter'] as Node;
    if (filter.type !== 'Identifier') return node;
    const operand = textOf(node['operand']);
    if (filter['value'] === 'string') return operand;
    return ofTexts.includes(filter['value'] as string) ? { ...node, operand } : node;
  },
  BinaryExpression(node) {
    const { left, right } = node;
    const operator = (node['operator'] as { value: string }).value;
    if (operator === 'in') return call(own.contains, left, right);
    if (operator === 'not in') return call(own.lacks, left, right);
    if (operator !== '~') return node;
    return { ...node, left: textOf(left), right: textOf(right) };
  },
  MemberExpression(node) {
    const key = node['property'] as Node;
    if (!node['computed'] || !isPlain(key)) return node;
    return { type: 'SelectExpression', lhs: node, test: call(own.isKey, key) };
  },
};
