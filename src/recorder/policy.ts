import { RE2JS } from 're2js';
import { errorMessage } from '../util/error-message.ts';
import { didYouMean } from '../words/nearest.ts';
import { RecorderError, type RecorderViolation } from './errors.ts';
import { redactionSets } from './redaction/sets.ts';
import type { RackChange } from './services.ts';
import type { Content, Policy, Retention } from './types.ts';

const contents: readonly Content[] = ['none', 'metadata', 'full'];

const bounds: Readonly<Record<keyof Retention, { least: number; most: number; shown: string }>> = {
  days: { least: 1, most: 3650, shown: '1 to 3650 days' },
  bytes: { least: 1024, most: 64 * 1024 ** 3, shown: '1024 (1 KiB) to 68719476736 (64 GiB) bytes' },
  events: { least: 1, most: 100_000_000, shown: '1 to 100000000 events' },
};

const mostPatterns = 32;
const longestPattern = 512;
/** States of all expressions together: each may be looked at for every character of a text. */
const mostStates = 2000;

/**
 * A policy, completed by what counts now.
 * @throws RecorderError invalid, with all violations
 */
export function changedPolicy(now: Policy, change: RackChange['policy']): Policy {
  if (change === undefined) return now;
  const content = change.content ?? now.content;
  const {
    days = now.retention.days,
    bytes = now.retention.bytes,
    events = now.retention.events,
  } = change.retention ?? {};
  const retention: Retention = { days, bytes, events };
  const redact = change.redact ?? now.redact;
  const violations: RecorderViolation[] = [];
  if (!contents.includes(content))
    violations.push({
      path: 'policy.content',
      message: `is '${content.slice(0, 40)}'; expected ${contents.map((name) => `'${name}'`).join(', ')}${didYouMean(content, contents, (name) => `'${name}'`)}`,
    });
  for (const [name, { least, most, shown }] of Object.entries(bounds)) {
    const value = retention[name as keyof Retention];
    if (!Number.isSafeInteger(value) || value < least || value > most)
      violations.push({
        path: `policy.retention.${name}`,
        message: `is ${value}; expected a whole number, ${shown}`,
      });
  }
  violations.push(...redactionFaults(redact));
  if (violations.length > 0)
    throw new RecorderError('invalid', 'invalid_policy', 'The policy is not valid.', { violations });
  return { content, retention, redact: [...new Set(redact)] };
}

function redactionFaults(redact: readonly string[]): RecorderViolation[] {
  if (redact.length > mostPatterns)
    return [
      {
        path: 'policy.redact',
        message: `has ${redact.length} patterns; at most ${mostPatterns}: join some with |`,
      },
    ];
  let states = 0;
  return redact.flatMap((pattern, index) => {
    const faults = faultsOf(pattern, (more) => {
      states += more;
      return states;
    });
    return faults === undefined ? [] : [{ path: `policy.redact[${index}]`, message: faults }];
  });
}

/** @param count adds to the states so far and tells them */
function faultsOf(pattern: string, count: (states: number) => number): string | undefined {
  if (pattern.startsWith('@')) {
    const known = Object.keys(redactionSets);
    if (known.includes(pattern)) return undefined;
    return `'${pattern.slice(0, 60)}' is no set of patterns; there are ${known.join(', ')}${didYouMean(pattern, known, (name) => name)}. A pattern that begins with @ is written [@]...`;
  }
  if (pattern === '') return 'is empty';
  if (pattern.length > longestPattern) return `has ${pattern.length} characters; at most ${longestPattern}`;
  try {
    const compiled = RE2JS.compile(pattern);
    if (compiled.test(''))
      return 'matches a text without characters, and so everywhere; ask for one character at least';
    const states = count(compiled.programSize());
    if (states > mostStates)
      return `makes ${states} states together with the patterns before it; at most ${mostStates}: use smaller counts`;
    return undefined;
  } catch (error) {
    const reason = errorMessage(error);
    return `is no RE2 expression: ${reason}. There is no lookaround and there are no back references`;
  }
}
