/** Which combination of tunables is kept, and what is reported of it. */
import { describe, expect, it } from 'vitest';
import { chooseCombination, findingsOfCombinations } from '../../src/lab/gate/sweep.ts';
import {
  type Clock,
  type Combination,
  compareRuns,
  defaultCombination,
} from '../../src/lab/gate/tunables.ts';
import type { BenchVerdict, Comparison, Finding } from '../../src/lab/types.ts';
import { seededRandom } from '../../src/util/random.ts';
import { reflect } from '../../src/lab/wgsl/reflect.ts';

const combination = (WG: number): Combination => ({
  overrides: { WG },
  candidate: undefined as never,
  gridFor: () => [1, 1, 1],
});
const [small, standard, large] = [combination(32), combination(64), combination(128)];
const compared = (verdict: BenchVerdict): Comparison => ({
  ratio: 1.04,
  ci95: { low: 1.01, high: 1.07 },
  control: { ratio: 1, ci95: { low: 0.99, high: 1.01 } },
  verdict,
});

describe('of the combinations of a shape', () => {
  const choose = async (
    byTime: readonly Combination[],
    { verdict, wrong = [] }: { verdict?: BenchVerdict; wrong?: readonly Combination[] },
  ) => {
    const verified: Combination[] = [];
    const choice = await chooseCombination(byTime, standard, {
      verify: (one) => {
        verified.push(one);
        return Promise.resolve(!wrong.includes(one));
      },
      compare: (baseline) => {
        expect(baseline).toBe(standard);
        return verdict ? Promise.resolve(compared(verdict)) : Promise.reject(new Error('not compared'));
      },
    });
    return { kept: choice?.kept, fastest: choice?.fastest?.overrides, verified };
  };

  it('the fastest is kept where it is faster than the default beyond the noise', async () => {
    expect(await choose([small, standard], { verdict: 'faster' })).toEqual({
      kept: small,
      fastest: { WG: 32 },
      verified: [small],
    });
  });

  it.each(['no_difference', 'inconclusive', 'slower'] as const)(
    'else the default, and the report says what was the fastest: %s',
    async (verdict) => {
      expect(await choose([small, large, standard], { verdict })).toMatchObject({
        kept: standard,
        fastest: { WG: 32 },
      });
    },
  );

  it('the default needs no comparison with itself', async () => {
    expect(await choose([standard, small], {})).toMatchObject({ kept: standard, fastest: undefined });
  });

  it('one that is wrong is not compared, and a default that is wrong is not kept', async () => {
    expect(await choose([small, large], { verdict: 'faster', wrong: [small] })).toMatchObject({
      kept: large,
    });
    expect(await choose([small, standard], { verdict: 'inconclusive', wrong: [standard] })).toMatchObject({
      kept: small,
    });
    expect(await choose([small], { wrong: [small] })).toMatchObject({ kept: undefined });
  });
});

describe('the comparison with the default', () => {
  /** A clock of a noisy machine, on which the two dispatches take these times on average. */
  const compare = async (baselineMs: number, boundMs: number) => {
    const random = seededRandom(1);
    const pass = { ms: 0 };
    const clock: Clock = {
      time: (encode) => {
        pass.ms = 0;
        encode(undefined as never);
        return Promise.resolve(pass.ms * (1 + 0.3 * random()));
      },
    };
    const dispatch = (ms: number) => () => void (pass.ms += ms);
    return await compareRuns({ baseline: dispatch(baselineMs), bound: dispatch(boundMs) }, clock, 5);
  };

  it('finds no difference in noise', async () => {
    expect((await compare(1, 1)).verdict).not.toBe('faster');
    expect((await compare(1, 0.99)).verdict).not.toBe('faster');
  });

  it('finds a difference beyond it, with its amount', async () => {
    const { verdict, ratio } = await compare(1, 0.6);
    expect(verdict).toBe('faster');
    expect(ratio).toBeCloseTo(1 / 0.6, 0);
  });
});

describe('the default combination', () => {
  const of = (source: string, tunables: Record<string, number[]>, overrides = {}) =>
    defaultCombination({ tunables, overrides }, reflect(source));

  it('has the declared values where they are tried, else the first ones', () => {
    const source = 'override WG: u32 = 64; override ROWS: u32;';
    expect(of(source, { WG: [32, 64], ROWS: [2, 4] })).toEqual({ WG: 64, ROWS: 2 });
    expect(of(source, { WG: [32, 64], ROWS: [2, 4] }, { WG: 32, ROWS: 4 })).toEqual({ WG: 32, ROWS: 4 });
    expect(of(source, { WG: [16, 32] })).toEqual({ WG: 16 });
  });
});

describe('findings of kept combinations', () => {
  const finding = (message: string): Finding => ({
    code: 'untested_loop',
    severity: 'warning',
    message,
    line: 3,
  });
  const messagesOf = (...found: readonly (readonly [WG: number, ...messages: string[]])[]) =>
    findingsOfCombinations(
      found.map(([WG, ...messages]) => ({ overrides: { WG }, findings: messages.map(finding) })),
    ).map(({ message }) => message);

  it('name the combinations that they are about, unless all have them', () => {
    expect(messagesOf([32, 'a', 'b'], [64, 'a', 'c'])).toEqual(['a', 'with WG=32: b', 'with WG=64: c']);
    expect(messagesOf([32, 'a'], [64], [128, 'a'])).toEqual(['with WG=32 and WG=128: a']);
    expect(messagesOf([32, 'a'])).toEqual(['with WG=32: a']);
  });
});
