import { describe, expect, it } from 'vitest';
import { RecorderError } from '../../src/recorder/errors.ts';
import { mergePolicy } from '../../src/recorder/policy.ts';
import type { RackChange } from '../../src/recorder/services.ts';
import { defaultPolicy } from '../../src/recorder/types.ts';

function violationsOf(change: unknown) {
  try {
    mergePolicy(defaultPolicy, change as RackChange['policy']);
  } catch (error) {
    if (error instanceof RecorderError)
      return Object.fromEntries(error.violations.map(({ path, message }) => [path, message]));
    throw error;
  }
  return {};
}

describe('a policy', () => {
  it('has finite limits by default', () => {
    const { days, bytes, events } = defaultPolicy.retention;
    for (const bound of [days, bytes, events]) expect(bound).toBeLessThan(1e9);
    expect(defaultPolicy.content).not.toBe('full');
    expect(mergePolicy(defaultPolicy, defaultPolicy)).toEqual(defaultPolicy);
  });

  it('keeps current values for absent members', () => {
    expect(mergePolicy(defaultPolicy, undefined)).toBe(defaultPolicy);
    const changed = mergePolicy(defaultPolicy, { retention: { days: 3, bytes: undefined } });
    expect(changed).toEqual({ ...defaultPolicy, retention: { ...defaultPolicy.retention, days: 3 } });
    expect(mergePolicy(changed, { content: 'none', redact: [] })).toEqual({
      ...changed,
      content: 'none',
      redact: [],
    });
    expect(mergePolicy(defaultPolicy, { redact: ['a', 'b', 'a'] }).redact).toEqual(['a', 'b']);
  });

  it('is refused with all violations', () => {
    expect(
      violationsOf({
        content: 'ful',
        retention: { days: 0, bytes: 1023, events: 1e9 },
        redact: ['fine', '(', '@credential', '', 'x*', '(?=a)', 'y'.repeat(513), '(?:abc){1000}', '@'],
      }),
    ).toEqual({
      'policy.content': expect.stringContaining("did you mean 'full'?"),
      'policy.retention.days': expect.stringContaining('1 to 3650'),
      'policy.retention.bytes': expect.stringContaining('64 GiB'),
      'policy.retention.events': expect.stringContaining('100000000'),
      'policy.redact[1]': expect.stringContaining('not a valid RE2 expression'),
      'policy.redact[2]': expect.stringContaining('did you mean @credentials?'),
      'policy.redact[3]': 'is empty',
      'policy.redact[4]': expect.stringContaining('matches the empty string'),
      'policy.redact[5]': expect.stringContaining('not a valid RE2 expression'),
      'policy.redact[6]': expect.stringContaining('at most 512'),
      'policy.redact[7]': expect.stringContaining('states'),
      'policy.redact[8]': expect.stringContaining('not a pattern set'),
    });
    for (const days of [1.5, 3651, Number.NaN, -1, '7'])
      expect(violationsOf({ retention: { days } }), String(days)).toHaveProperty(['policy.retention.days']);
    expect(violationsOf({ retention: { days: 1, bytes: 1024, events: 1 } })).toEqual({});
    expect(violationsOf({ retention: { days: 3650, bytes: 64 * 1024 ** 3, events: 100_000_000 } })).toEqual(
      {},
    );
  });

  it('limits the number and size of patterns', () => {
    expect(violationsOf({ redact: Array.from({ length: 33 }, (_, index) => `a${index}`) })).toHaveProperty([
      'policy.redact',
    ]);
    const large = Array.from({ length: 4 }, (_, index) => `[a-z]${index}{600}`);
    expect(Object.keys(violationsOf({ redact: large }))).toEqual(['policy.redact[3]']);
  });
});
