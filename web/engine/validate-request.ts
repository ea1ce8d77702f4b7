/** Validates requests and options of a page. Requests are a subset of `POST /v1/chat/completions`. */
import { isRecord } from '../../src/util/json.ts';
import type { RequestViolation } from './types.ts';

/** Returns what is wrong with a value, or undefined. */
type Check = (value: unknown) => string | undefined;

const expectation =
  (description: string, isValid: (value: unknown) => boolean): Check =>
  (value) =>
    isValid(value) ? undefined : `expected ${description}, got ${describeValue(value)}`;

const numberBetween = (min: number, max: number): Check =>
  expectation(
    `a number from ${min} to ${max}`,
    (value) => typeof value === 'number' && value >= min && value <= max,
  );

const wholeNumber = (min: number, max = Number.MAX_SAFE_INTEGER): Check =>
  expectation(
    max === Number.MAX_SAFE_INTEGER
      ? `a whole number, at least ${min}`
      : `a whole number from ${min} to ${max}`,
    (value) => Number.isInteger(value) && (value as number) >= min && (value as number) <= max,
  );

const maxStops = 16;
const isStopSequence = (value: unknown): boolean => typeof value === 'string' && value !== '';
const stopCheck = expectation(
  `a non-empty string, or an array of up to ${maxStops} non-empty strings`,
  (value) =>
    isStopSequence(value) ||
    (Array.isArray(value) && value.length <= maxStops && value.every(isStopSequence)),
);

const memberChecks: Readonly<Record<string, Check>> = {
  max_tokens: wholeNumber(1),
  temperature: numberBetween(0, 2),
  top_p: numberBetween(0, 1),
  top_k: wholeNumber(-1, 2 ** 31),
  min_p: numberBetween(0, 1),
  repetition_penalty: numberBetween(0.01, 10),
  presence_penalty: numberBetween(-2, 2),
  frequency_penalty: numberBetween(-2, 2),
  seed: expectation(
    'a whole number of 64 bits',
    (value) => Number.isInteger(value) && Math.abs(value as number) <= 2 ** 63,
  ),
  stop: stopCheck,
  stream: expectation('true or false', (value) => typeof value === 'boolean'),
};
const roles = ['system', 'user', 'assistant'];

/** All violations of a request; empty when it is valid. */
export function requestViolations(request: unknown): RequestViolation[] {
  if (!isRecord(request)) return [{ path: '', message: `expected a request, got ${describeValue(request)}` }];
  const violations = messageViolations(request['messages']);
  for (const [path, value] of Object.entries(request)) {
    // As on the wire, null means absent.
    if (path === 'messages' || value === undefined || value === null) continue;
    const message = Object.hasOwn(memberChecks, path)
      ? memberChecks[path]?.(value)
      : unsupportedMember(memberChecks, 'messages');
    if (message !== undefined) violations.push({ path, message });
  }
  return violations;
}

function messageViolations(messages: unknown): RequestViolation[] {
  if (!Array.isArray(messages) || messages.length === 0) {
    return [
      {
        path: 'messages',
        message: `expected an array of at least one message, got ${describeValue(messages)}`,
      },
    ];
  }
  return messages.flatMap((message: unknown, index) => {
    const path = `messages.${index}`;
    if (!isRecord(message))
      return [{ path: path, message: `expected {role, content}, got ${describeValue(message)}` }];
    const { role, content, ...others } = message;
    const violations: RequestViolation[] = [];
    if (typeof role !== 'string' || !roles.includes(role))
      violations.push({
        path: `${path}.role`,
        message: `expected one of ${roles.join(', ')}, got ${describeValue(role)}`,
      });
    if (typeof content !== 'string')
      violations.push({
        path: `${path}.content`,
        message: `expected a string, got ${describeValue(content)}`,
      });
    for (const [name, value] of Object.entries(others)) {
      if (value === undefined || value === null) continue;
      violations.push({ path: `${path}.${name}`, message: unsupportedMember({}, 'role', 'content') });
    }
    return violations;
  });
}

/** All violations of the options of `createChat`. */
export function optionViolations(options: unknown): RequestViolation[] {
  if (!isRecord(options)) return [{ path: '', message: `expected options, got ${describeValue(options)}` }];
  return Object.entries(options).flatMap(([path, value]) => {
    if (value === undefined) return [];
    const message = Object.hasOwn(optionChecks, path)
      ? optionChecks[path]?.(value)
      : unsupportedMember(optionChecks);
    return message === undefined ? [] : [{ path, message }];
  });
}

const isFile = (value: unknown): boolean => value instanceof File;

const optionChecks: Readonly<Record<string, Check>> = {
  model: expectation('a URL (http: or https:) or an array of at least one File', (value) =>
    Array.isArray(value)
      ? value.length > 0 && value.every(isFile)
      : typeof value === 'string' || value instanceof URL,
  ),
  cache: expectation('true or false', (value) => typeof value === 'boolean'),
  contextLength: wholeNumber(1),
  onProgress: expectation('a function', (value) => typeof value === 'function'),
  signal: expectation('an AbortSignal', (value) => value instanceof AbortSignal),
};

const unsupportedMember = (knownMembers: object, ...others: readonly string[]): string =>
  `is not supported here; expected one of ${[...others, ...Object.keys(knownMembers)].join(', ')}`;

const maxShown = 60;

function describeValue(value: unknown): string {
  if (value === undefined) return 'nothing';
  if (Array.isArray(value)) return value.length === 0 ? 'an empty array' : 'an array';
  if (typeof value === 'number') return String(value);
  if (typeof value !== 'string' && typeof value !== 'boolean' && value !== null)
    return `a value of type ${typeof value}`;
  const text = JSON.stringify(value);
  return text.length <= maxShown ? text : `${text.slice(0, maxShown)}...`;
}
