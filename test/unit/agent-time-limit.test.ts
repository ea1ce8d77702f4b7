import { describe, expect, it } from 'vitest';
import { schemaValidator } from '../../src/agent/turns/schema-validator.ts';
import { TimeLimitExceeded, runWithTimeLimit } from '../../src/agent/time-limit.ts';
import { validateWithDefaults } from '../../src/agent/workflows/definition/json-schema.ts';
import { runsRest } from '../support/tier.ts';

/** Validation follows 2^levels references. */
function bomb(levels: number): Record<string, unknown> {
  const step = (level: number) => ({ $ref: `#/$defs/d${level}` });
  const defs = Array.from({ length: levels }, (_, level) => [
    `d${level}`,
    { allOf: [step(level + 1), step(level + 1)] },
  ]);
  return { ...step(0), $defs: { ...Object.fromEntries(defs), [`d${levels}`]: { type: 'string' } } };
}

describe('runWithTimeLimit', () => {
  it('returns the result of the computation, and throws its errors', () => {
    const mine = new RangeError('mine');
    expect(
      runWithTimeLimit(1000, () => runWithTimeLimit(1000, () => 'inner') + runWithTimeLimit(1000, () => '!')),
    ).toBe('inner!');
    expect(() =>
      runWithTimeLimit(1000, () => {
        throw mine;
      }),
    ).toThrow(mine);
  });

  it('stops an endless computation, even if it catches all errors', () => {
    const endless = () => {
      for (;;) {
        try {
          for (;;);
        } catch {
          // Not even here.
        }
      }
    };
    expect(() => runWithTimeLimit(20, endless)).toThrow(TimeLimitExceeded);
    expect(runWithTimeLimit(1000, () => 1)).toBe(1);
  });

  it('does not count time in which the machine was busy', () => {
    const asleep = new Int32Array(new SharedArrayBuffer(4));
    let times = 0;
    const work = () => {
      times += 1;
      if (times < 3) Atomics.wait(asleep, 0, 0, 200);
      return 'done';
    };
    expect(runWithTimeLimit(50, work)).toBe('done');
    expect(times).toBeLessThanOrEqual(3);
    // But waiting has an end too.
    times = -100;
    expect(() => runWithTimeLimit(10, work)).toThrow(TimeLimitExceeded);
  });
});

describe('untrusted schemas', () => {
  it.runIf(runsRest)('are abandoned permanently when validation is endless', () => {
    const schema = bomb(40);
    expect(schemaValidator(schema)({})).toEqual([expect.stringContaining('takes too long')]);
    expect(schemaValidator(schema)('fits')).toEqual([expect.stringContaining('takes too long')]);
    expect(validateWithDefaults(bomb(40), {}).faults).toEqual([
      { path: '', message: expect.stringContaining('takes too long') as string },
    ]);
  });

  it('are abandoned when they compare many values pairwise', () => {
    const many = Array.from({ length: 20_000 }, (_, n) => ({ n }));
    expect(schemaValidator({ uniqueItems: true })(many)).toEqual([expect.stringContaining('takes too long')]);
  });

  it('give messages of limited length', () => {
    const [violation = ''] = schemaValidator({ enum: Array.from({ length: 10_000 }, (_, n) => n) })('x');
    expect(violation).toMatch(/^expected one of \[0,1,2,/);
    expect(violation.length).toBeLessThan(600);
  });

  it('still validate normal values', () => {
    const check = schemaValidator({ ...bomb(3), minLength: 2 });
    expect(check('ab')).toEqual([]);
    expect(check('a')).toEqual(['must NOT have fewer than 2 characters']);
    expect(validateWithDefaults({ type: 'object', properties: { a: { default: 1 } } }, {})).toEqual({
      value: { a: 1 },
      faults: [],
    });
  });
});
