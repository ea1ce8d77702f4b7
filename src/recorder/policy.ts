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
/** Limit of automaton states of all expressions together. Matching may visit each state for every character. */
const mostStates = 2000;

/**
 * Validates a policy. Absent members keep their current values.
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
        message: `is ${value}; expected a whole number of ${shown}`,
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
        message: `has ${redact.length} patterns, expected at most ${mostPatterns}; join some with |`,
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

/** Checks one pattern. @param count adds to the number of states so far and returns the sum */
function faultsOf(pattern: string, count: (states: number) => number): string | undefined {
  if (pattern.startsWith('@')) {
    const known = Object.keys(redactionSets);
    if (known.includes(pattern)) return undefined;
    return `'${pattern.slice(0, 60)}' is not a pattern set; the sets are: ${known.join(', ')}${didYouMean(pattern, known, (name) => name)}. To match a literal @ at the beginning of a pattern, write [@]...`;
  }
  if (pattern === '') return 'is empty';
  if (pattern.length > longestPattern)
    return `has ${pattern.length} characters, expected at most ${longestPattern}`;
  try {
    const compiled = RE2JS.compile(pattern);
    if (compiled.test(''))
      return 'matches the empty string and therefore everywhere; require at least one character';
    const states = count(compiled.programSize());
    if (states > mostStates)
      return `needs ${states} automaton states together with the patterns before it, expected at most ${mostStates}; use smaller repetition counts`;
    return undefined;
  } catch (error) {
    const reason = errorMessage(error);
    return `is not a valid RE2 expression: ${reason}. RE2 has no lookaround and no backreferences`;
  }
}
