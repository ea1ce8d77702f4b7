import { RE2JS } from 're2js';
import { errorMessage } from '../util/error-message.ts';
import { didYouMean } from '../words/nearest.ts';
import { RecorderError, type RecorderViolation } from './errors.ts';
import { redactionSets } from './redaction/sets.ts';
import type { RackChange } from './services.ts';
import type { ContentLevel, Policy, Retention } from './types.ts';

const contentLevels: readonly ContentLevel[] = ['none', 'metadata', 'full'];

const retentionLimits: Readonly<Record<keyof Retention, { min: number; max: number; rangeText: string }>> = {
  days: { min: 1, max: 3650, rangeText: '1 to 3650 days' },
  bytes: { min: 1024, max: 64 * 1024 ** 3, rangeText: '1024 (1 KiB) to 68719476736 (64 GiB) bytes' },
  events: { min: 1, max: 100_000_000, rangeText: '1 to 100000000 events' },
};

const maxPatterns = 32;
const maxPatternLength = 512;
/** Limit of automaton states of all expressions together. Matching may visit each state for every character. */
const maxStates = 2000;

/**
 * Validates a policy. Absent members keep their current values.
 * @throws RecorderError invalid, with all violations
 */
export function mergePolicy(current: Policy, change: RackChange['policy']): Policy {
  if (change === undefined) return current;
  const content = change.content ?? current.content;
  const {
    days = current.retention.days,
    bytes = current.retention.bytes,
    events = current.retention.events,
  } = change.retention ?? {};
  const retention: Retention = { days, bytes, events };
  const redact = change.redact ?? current.redact;
  const violations: RecorderViolation[] = [];
  if (!contentLevels.includes(content))
    violations.push({
      path: 'policy.content',
      message: `is '${content.slice(0, 40)}'; expected ${contentLevels.map((name) => `'${name}'`).join(', ')}${didYouMean(content, contentLevels, (name) => `'${name}'`)}`,
    });
  for (const [name, { min, max, rangeText }] of Object.entries(retentionLimits)) {
    const value = retention[name as keyof Retention];
    if (!Number.isSafeInteger(value) || value < min || value > max)
      violations.push({
        path: `policy.retention.${name}`,
        message: `is ${value}; expected a whole number of ${rangeText}`,
      });
  }
  violations.push(
    ...findRedactionFaults(redact).map(({ index, message }) => ({
      path: index === undefined ? 'policy.redact' : `policy.redact[${index}]`,
      message,
    })),
  );
  if (violations.length > 0)
    throw new RecorderError('invalid', 'invalid_policy', 'The policy is not valid.', { violations });
  return { content, retention, redact: [...new Set(redact)] };
}

/** What is wrong with patterns of redaction. `index` is that of the pattern; undefined: all of them together. */
export function findRedactionFaults(
  redact: readonly string[],
): { readonly index: number | undefined; readonly message: string }[] {
  if (redact.length > maxPatterns)
    return [
      {
        index: undefined,
        message: `has ${redact.length} patterns, expected at most ${maxPatterns}; join some with |`,
      },
    ];
  let states = 0;
  return redact.flatMap((pattern, index) => {
    const faults = findPatternFault(pattern, (more) => {
      states += more;
      return states;
    });
    return faults === undefined ? [] : [{ index, message: faults }];
  });
}

/** Checks one pattern. @param count adds to the number of states so far and returns the sum */
function findPatternFault(pattern: string, addStates: (states: number) => number): string | undefined {
  if (pattern.startsWith('@')) {
    const known = Object.keys(redactionSets);
    if (known.includes(pattern)) return undefined;
    return `'${pattern.slice(0, 60)}' is not a pattern set; the sets are: ${known.join(', ')}${didYouMean(pattern, known, (name) => name)}. To match a literal @ at the beginning of a pattern, write [@]...`;
  }
  if (pattern === '') return 'is empty';
  if (pattern.length > maxPatternLength)
    return `has ${pattern.length} characters, expected at most ${maxPatternLength}`;
  try {
    const compiled = RE2JS.compile(pattern);
    if (compiled.test(''))
      return 'matches the empty string and therefore everywhere; require at least one character';
    const states = addStates(compiled.programSize());
    if (states > maxStates)
      return `needs ${states} automaton states together with the patterns before it, expected at most ${maxStates}; use smaller repetition counts`;
    return undefined;
  } catch (error) {
    const reason = errorMessage(error);
    return `is not a valid RE2 expression: ${reason}. RE2 has no lookaround and no backreferences`;
  }
}
