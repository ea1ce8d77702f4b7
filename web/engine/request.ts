/** Validates requests and options of a page. Requests are a subset of `POST /v1/chat/completions`. */
import { isRecord } from '../../src/util/json.ts';
import type { RequestViolation } from './types.ts';

/** Returns what is wrong with a value, or undefined. */
type Check = (value: unknown) => string | undefined;

const expected =
  (what: string, holds: (value: unknown) => boolean): Check =>
  (value) =>
    holds(value) ? undefined : `expected ${what}, got ${shown(value)}`;

const between = (least: number, most: number): Check =>
  expected(
    `a number from ${least} to ${most}`,
    (value) => typeof value === 'number' && value >= least && value <= most,
  );

const whole = (least: number, most = Number.MAX_SAFE_INTEGER): Check =>
  expected(
    most === Number.MAX_SAFE_INTEGER
      ? `a whole number, at least ${least}`
      : `a whole number from ${least} to ${most}`,
    (value) => Number.isInteger(value) && (value as number) >= least && (value as number) <= most,
  );

const mostStops = 16;
const isStop = (value: unknown): boolean => typeof value === 'string' && value !== '';
const stops = expected(
  `a non-empty string, or an array of up to ${mostStops} non-empty strings`,
  (value) => isStop(value) || (Array.isArray(value) && value.length <= mostStops && value.every(isStop)),
);

const members: Readonly<Record<string, Check>> = {
  max_tokens: whole(1),
  temperature: between(0, 2),
  top_p: between(0, 1),
  top_k: whole(-1, 2 ** 31),
  min_p: between(0, 1),
  repetition_penalty: between(0.01, 10),
  presence_penalty: between(-2, 2),
  frequency_penalty: between(-2, 2),
  seed: expected(
    'a whole number of 64 bits',
    (value) => Number.isInteger(value) && Math.abs(value as number) <= 2 ** 63,
  ),
  stop: stops,
  stream: expected('true or false', (value) => typeof value === 'boolean'),
};
const roles = ['system', 'user', 'assistant'];

/** All violations of a request; empty when it is valid. */
export function violationsOf(request: unknown): RequestViolation[] {
  if (!isRecord(request)) return [{ path: '', message: `expected a request, got ${shown(request)}` }];
  const wrong = messageViolations(request['messages']);
  for (const [path, value] of Object.entries(request)) {
    // As on the wire, null means absent.
    if (path === 'messages' || value === undefined || value === null) continue;
    const message = Object.hasOwn(members, path) ? members[path]?.(value) : unknown(members, 'messages');
    if (message !== undefined) wrong.push({ path, message });
  }
  return wrong;
}

function messageViolations(messages: unknown): RequestViolation[] {
  if (!Array.isArray(messages) || messages.length === 0) {
    return [
      { path: 'messages', message: `expected an array of at least one message, got ${shown(messages)}` },
    ];
  }
  return messages.flatMap((message: unknown, index) => {
    const at = `messages.${index}`;
    if (!isRecord(message)) return [{ path: at, message: `expected {role, content}, got ${shown(message)}` }];
    const { role, content, ...others } = message;
    const wrong: RequestViolation[] = [];
    if (typeof role !== 'string' || !roles.includes(role))
      wrong.push({ path: `${at}.role`, message: `expected one of ${roles.join(', ')}, got ${shown(role)}` });
    if (typeof content !== 'string')
      wrong.push({ path: `${at}.content`, message: `expected a string, got ${shown(content)}` });
    for (const [name, value] of Object.entries(others)) {
      if (value === undefined || value === null) continue;
      wrong.push({ path: `${at}.${name}`, message: unknown({}, 'role', 'content') });
    }
    return wrong;
  });
}

/** All violations of the options of `createChat`. */
export function optionViolations(options: unknown): RequestViolation[] {
  if (!isRecord(options)) return [{ path: '', message: `expected options, got ${shown(options)}` }];
  return Object.entries(options).flatMap(([path, value]) => {
    if (value === undefined) return [];
    const message = Object.hasOwn(optionChecks, path) ? optionChecks[path]?.(value) : unknown(optionChecks);
    return message === undefined ? [] : [{ path, message }];
  });
}

const isFile = (value: unknown): boolean => value instanceof File;

const optionChecks: Readonly<Record<string, Check>> = {
  model: expected('a URL (http: or https:) or an array of at least one File', (value) =>
    Array.isArray(value)
      ? value.length > 0 && value.every(isFile)
      : typeof value === 'string' || value instanceof URL,
  ),
  cache: expected('true or false', (value) => typeof value === 'boolean'),
  contextLength: whole(1),
  onProgress: expected('a function', (value) => typeof value === 'function'),
  signal: expected('an AbortSignal', (value) => value instanceof AbortSignal),
};

const unknown = (known: object, ...more: readonly string[]): string =>
  `is not supported here; expected one of ${[...more, ...Object.keys(known)].join(', ')}`;

const mostShown = 60;

function shown(value: unknown): string {
  if (value === undefined) return 'nothing';
  if (Array.isArray(value)) return value.length === 0 ? 'an empty array' : 'an array';
  if (typeof value === 'number') return String(value);
  if (typeof value !== 'string' && typeof value !== 'boolean' && value !== null)
    return `a value of type ${typeof value}`;
  const text = JSON.stringify(value);
  return text.length <= mostShown ? text : `${text.slice(0, mostShown)}...`;
}
