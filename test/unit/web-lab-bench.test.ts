/** The words of bench verdicts, the history of benches, and two benches compared. */
import { describe, expect, it } from 'vitest';
import { estimateChange } from '../../src/lab/bench/statistics.ts';
import { seededRandom } from '../../src/util/random.ts';
import {
  componentOf,
  filterBenches,
  historyChart,
  verdictOfBench,
} from '../../web/console/views/lab/bench/bench-list.ts';
import type { BenchRecord, BenchSummary } from '../../web/console/views/lab/bench/queries.ts';
import {
  componentRows,
  differs,
  obstaclesOf,
  settingsOf,
  speedRows,
} from '../../web/console/views/lab/bench/run-comparison.ts';
import {
  creditedVerdict,
  explainVerdict,
  headlineVerdict,
  noiseOf,
} from '../../web/console/views/lab/bench/verdict-text.ts';
import { diffRows } from '../../web/console/views/lab/kernels/diff-rows.ts';
import { scriptedRecord } from '../support/scripted-lab.ts';

const scripted = scriptedRecord as unknown as BenchRecord;
type Result = BenchRecord['result'];
type Row = Result['decode'][number];

const estimate = (ratio: number, low: number, high: number) => ({ ratio, ci95: { low, high } });
const quiet = estimate(1.001, 0.99, 1.01);
/** Equal arms that differ by 3 %. */
const noisy = estimate(1.03, 0.98, 1.08);

const row = (context: number, verdict: Row['verdict'], low: number, high: number, control = quiet): Row => ({
  context,
  baseline_tps: 10,
  bound_tps: 12,
  ...estimate(Math.sqrt(low * high), low, high),
  control,
  verdict,
  outputs: { timed_tokens: 8, timed_same: 8, mean_kl: 0, worst_kl: 0 },
});

/** A result over one or more contexts. */
function resultOf(
  verdict: Result['verdict'],
  [low, high]: readonly [number, number],
  { control = quiet, decode = [row(32, verdict, low, high, control)], rounds = 20 } = {},
): Result {
  return {
    ...scripted.result,
    fingerprint: { ...scripted.result.fingerprint, kernels: { 'mine WG=64': 'sha256:00' } },
    delta: { prefill: 0, decode: Math.sqrt(low * high) - 1 },
    ratio_ci95: [low, high],
    control,
    decode,
    verdict,
    rounds,
  };
}

describe('the verdict of a bench in words', () => {
  it('faster and slower outside the noise, with the interval and the margin', () => {
    expect(explainVerdict(resultOf('faster', [1.04, 1.08]))).toBe(
      'Decoding with mine: +6.0 % (95 % interval +4.0 % to +8.0 %, 20 rounds). Faster: the whole interval is above the noise of this bench, ±1 %, by at least 3 %.',
    );
    expect(explainVerdict(resultOf('slower', [0.9, 0.95]))).toMatch(
      /−7\.5 % \(95 % interval −10\.0 % to −5\.0 %, 20 rounds\)\. Slower: the whole interval is below the noise of this bench, ±1 %, by at least 4 %\.$/,
    );
  });

  it.each([
    ['faster', 1.02, 1.2, noisy],
    ['slower', 0.8, 0.98, noisy],
    ['faster', 1.005, 1.2, quiet],
    ['slower', 0.8, 0.995, quiet],
  ] as const)('never says %s where the interval reaches into the noise', (verdict, low, high, control) => {
    const result = resultOf(verdict, [low, high], { control });
    expect(creditedVerdict({ verdict, ci95: { low, high }, control })).toBe('inconclusive');
    expect(headlineVerdict(result)).toBe('inconclusive');
    const text = explainVerdict(result);
    expect(text).toMatch(/Inconclusive: the interval reaches into the noise/);
    expect(text).not.toMatch(/faster|slower/i);
  });

  it('a bench of an earlier version, without a control, has a noise of 1 %', () => {
    expect(noiseOf(undefined)).toBe(0.01);
    expect(creditedVerdict({ verdict: 'faster', ci95: { low: 1.009, high: 1.1 } })).toBe('inconclusive');
    expect(creditedVerdict({ verdict: 'faster', ci95: { low: 1.011, high: 1.1 } })).toBe('faster');
  });

  it('no difference names the effect that was asked about, and too few rounds are inconclusive', () => {
    expect(explainVerdict(resultOf('no_difference', [0.97, 1.02]))).toMatch(
      /No difference of 10 % or more: the whole interval is within ±10 %/,
    );
    expect(explainVerdict(resultOf('inconclusive', [1.2, 1.4], { rounds: 4 }))).toMatch(
      /Inconclusive: 4 rounds are too few, at least 6 are needed\.$/,
    );
  });

  it('the headline agrees with its rows: opposite contexts make it inconclusive', () => {
    const decode = [row(32, 'faster', 1.1, 1.3), row(512, 'slower', 0.8, 0.9)];
    for (const verdict of ['faster', 'slower', 'inconclusive'] as const) {
      const range = verdict === 'slower' ? ([0.9, 0.95] as const) : ([1.02, 1.1] as const);
      const result = resultOf(verdict, range, { decode });
      expect(headlineVerdict(result)).toBe('inconclusive');
      expect(explainVerdict(result)).toMatch(
        /Inconclusive: the contexts contradict one another, faster at 32, slower at 512\.$/,
      );
    }
    const agreeing = resultOf('faster', [1.02, 1.1], {
      decode: [row(32, 'faster', 1.1, 1.3), row(64, 'no_difference', 0.99, 1.01)],
    });
    expect(headlineVerdict(agreeing)).toBe('faster');
  });
});

describe('the history of benches', () => {
  const bench = (id: string, second: number, rest: Partial<BenchSummary> = {}): BenchSummary => ({
    id,
    at: `2026-11-28T00:00:0${second}.000Z`,
    model: 'm',
    lathe: '1.0.0',
    adapter: 'x',
    kernels: [{ name: 'mine', digest: 'sha256:aaaaaaaaaaaaaaaa' }],
    verdict: 'faster',
    rounds: 20,
    decode: { ...estimate(1.1, 1.05, 1.15), control: quiet },
    baseline_decode_tps: 10,
    bound_decode_tps: 11,
    baseline_prefill_tps: 100,
    bound_prefill_tps: 99,
    components: [
      { slot: 'layers.*.norm', kernel: 'mine', gpu_ms: 2, baseline_ms: 3 },
      { slot: 'layers.*.norm', kernel: 'builtin:rms_norm.wgsl', gpu_ms: 1, baseline_ms: 1 },
    ],
    is_complete: true,
    ...rest,
  });
  const other = bench('b', 2, {
    kernels: [{ name: 'other', digest: 'sha256:bbbbbbbbbbbbbbbb' }],
    model: 'n',
    components: [{ slot: 'output.norm', kernel: 'other', gpu_ms: 4 }],
  });
  // Newest first, as the host lists them.
  const all = [bench('c', 3, { lathe: '1.1.0' }), other, bench('a', 1)];

  it('filters by kernel, model and component', () => {
    const ids = (filter: Partial<Parameters<typeof filterBenches>[1]>) =>
      filterBenches(all, { kernel: '', model: '', component: '', ...filter }).map(({ id }) => id);
    expect(ids({})).toEqual(['c', 'b', 'a']);
    expect(ids({ kernel: 'mine' })).toEqual(['c', 'a']);
    expect(ids({ model: 'n' })).toEqual(['b']);
    expect(ids({ component: 'output.norm' })).toEqual(['b']);
    expect(componentOf(all[2] as BenchSummary, 'layers.*.norm')).toEqual({
      kernel: 'mine, rms_norm.wgsl',
      ms: 3,
      builtinMs: 4,
    });
  });

  it('plots ratios with intervals over time, a series for each digest and version of lathe', () => {
    const { x, series } = historyChart(all, { measure: 'decode', component: '' });
    expect(x).toEqual([1, 2, 3].map((second) => Date.parse(`2026-11-28T00:00:0${second}.000Z`)));
    expect(series.map(({ name, values }) => [name, values])).toEqual([
      ['mine aaaaaaaaaaaa, lathe 1.1.0', [null, null, 1.1]],
      ['other bbbbbbbbbbbb, lathe 1.0.0', [null, 1.1, null]],
      ['mine aaaaaaaaaaaa, lathe 1.0.0', [1.1, null, null]],
      ['No difference', [1, 1, 1]],
    ]);
    expect(series[2]?.band).toEqual({ low: [1.05, null, null], high: [1.15, null, null] });
  });

  it('plots tokens per second and the time of a component, and joins the oldest of many series', () => {
    expect(historyChart(all, { measure: 'decode_tps', component: '' }).series).toHaveLength(3);
    const times = historyChart(all, { measure: 'decode', component: 'output.norm' });
    expect(times.series[1]?.values).toEqual([null, 4, null]);
    const many = Array.from({ length: 9 }, (_, n) => bench(`${n}`, 9 - n, { lathe: `${n}` }));
    const { series } = historyChart(many, { measure: 'decode_tps', component: '' });
    expect(series.map(({ name }) => name)).toEqual([
      ...[0, 1, 2, 3, 4].map((n) => `mine aaaaaaaaaaaa, lathe ${n}`),
      'earlier kernels',
    ]);
    expect(series.at(-1)?.values.filter((one) => one !== null)).toHaveLength(4);
  });

  it('a verdict inside the noise is not listed as faster', () => {
    expect(verdictOfBench(bench('a', 1))).toBe('faster');
    expect(verdictOfBench(bench('a', 1, { decode: { ...estimate(1.1, 1.005, 1.15), control: quiet } }))).toBe(
      'inconclusive',
    );
    expect(verdictOfBench(bench('a', 1, { verdict: 'of a later version' }))).toBe('of a later version');
  });
});

describe('two benches compared', () => {
  /** Bound times that make the kernels `speed` times as fast; times of the machine change by round. */
  const record = (speed: number, machineSpeed = 1, rest: Partial<BenchRecord> = {}): BenchRecord => {
    const result = resultOf('faster', [speed * 0.99, speed * 1.01], {
      decode: [row(32, 'faster', speed * 0.99, speed * 1.01)],
    });
    return {
      ...scripted,
      result: { ...result, budget: { ...result.budget, contexts: [32] } },
      rounds: Array.from({ length: 20 }, (_, n) => {
        const ms = (1 + (n % 5) / 100) / machineSpeed;
        const times = (kind: 'decode' | 'prefill', context: number) => ({
          kind,
          context,
          tokens: 4,
          baseline_ms: ms,
          control_ms: ms * 1.001,
          bound_ms: ms / speed,
        });
        return [times('prefill', 64), times('decode', 32)];
      }),
      ...rest,
    };
  };
  const decode = (rows: ReturnType<typeof speedRows>) => rows.find(({ name }) => name === 'Decode at 32');

  it('has the ratio with its interval, also when the machine was slower at one of the times', () => {
    const change = decode(speedRows(record(1.1), record(1.32, 0.5)))?.change;
    expect(change?.ratio).toBeCloseTo(1.2, 3);
    expect(change?.ci95.low).toBeGreaterThan(1.19);
    expect(change?.ci95.high).toBeLessThan(1.21);
    expect(change?.verdict).toBe('faster');
    expect(decode(speedRows(record(1.1), record(1.1)))?.change?.verdict).toBe('no_difference');
    expect(decode(speedRows(record(1.32), record(1.1)))?.change?.verdict).toBe('slower');
  });

  it('warns where machine, adapter or settings differ, and then has no ratio', () => {
    const [a, b] = [record(1.1), record(1.2)];
    expect(obstaclesOf(settingsOf(a, b))).toEqual([]);
    const machine = { ...b, machine: { ...b.machine, cpu: 'another' } };
    const adapter = {
      ...b,
      result: { ...b.result, fingerprint: { ...b.result.fingerprint, adapter: 'another' } },
    };
    for (const [changed, name] of [
      [machine, 'Processor'],
      [adapter, 'Adapter'],
    ] as const) {
      const settings = settingsOf(a, changed);
      expect(obstaclesOf(settings).map((one) => one.name)).toEqual([name]);
      expect(settings.filter(differs).map((one) => one.name)).toEqual([name]);
      for (const { change } of speedRows(a, changed)) expect(change).toBeUndefined();
    }
  });

  it('compares the contexts that both have, and not all of them together', () => {
    const [a, b] = [record(1.1), record(1.2)];
    const longer = { ...b, result: { ...b.result, budget: { ...b.result.budget, contexts: [32, 64] } } };
    expect(obstaclesOf(settingsOf(a, longer)).map(({ name }) => name)).toEqual(['Contexts']);
    const rows = speedRows(a, longer);
    expect(decode(rows)?.change).toBeDefined();
    expect(rows.find(({ name }) => name === 'Decode, all contexts')?.change).toBeUndefined();
  });

  it('has the times of components relative to the built-in kernels of the same bench', () => {
    const timed = (norm: number, other: number): BenchRecord => ({
      ...record(1),
      result: {
        ...record(1).result,
        components: [
          ['layers.0.norm', norm, 2],
          ['layers.1.norm', norm, 2],
          ['logits', other, 6],
        ].map(([id, gpu, base]) => ({
          ...(scripted.result.components[0] as Result['components'][number]),
          id: String(id),
          gpu_ms: Number(gpu),
          baseline_ms: Number(base),
        })),
      },
    });
    expect(
      componentRows(timed(2, 6), timed(1, 6)).map(({ slot, before, after }) => [slot, before, after]),
    ).toEqual([
      ['layers.*.norm', 0.4, 0.2],
      ['logits', 0.6, 0.6],
    ]);
  });
});

it('the ratio of two ratios covers the truth in about 19 of 20 comparisons', () => {
  const random = seededRandom(7);
  const times = (speed: number, rounds: number) => {
    const noise = () => 1 + 0.1 * random();
    const draw = (ms: number) => Array.from({ length: rounds }, () => ms * noise());
    return { baseline: draw(1), bound: draw(1 / speed), control: draw(1) };
  };
  let covered = 0;
  for (let n = 0; n < 200; n++) {
    const { ci95 } = estimateChange([times(1.1, 12)], [times(1.21, 20)], random, 400);
    if (ci95.low <= 1.1 && 1.1 <= ci95.high) covered++;
  }
  expect(covered).toBeGreaterThanOrEqual(180);
});

describe('the difference of two sources', () => {
  it('has line numbers of both, pairs changed lines, and leaves out equal ones', () => {
    const before = ['a', 'b', 'c', 'd', 'e', 'f', 'g'];
    const after = ['a', 'b', 'c', 'd', 'E', 'F', 'new', 'g'];
    expect(diffRows(before.join('\n'), after.join('\n'), 1)).toEqual([
      { kind: 'omitted', count: 3 },
      { kind: 'equal', before: { line: 4, text: 'd' }, after: { line: 4, text: 'd' } },
      { kind: 'changed', before: { line: 5, text: 'e' }, after: { line: 5, text: 'E' } },
      { kind: 'changed', before: { line: 6, text: 'f' }, after: { line: 6, text: 'F' } },
      { kind: 'added', after: { line: 7, text: 'new' } },
      { kind: 'equal', before: { line: 7, text: 'g' }, after: { line: 8, text: 'g' } },
    ]);
    expect(diffRows('a\nb', 'a')).toEqual([
      { kind: 'equal', before: { line: 1, text: 'a' }, after: { line: 1, text: 'a' } },
      { kind: 'removed', before: { line: 2, text: 'b' } },
    ]);
    expect(diffRows('a\nb', 'a\nb')).toEqual([{ kind: 'omitted', count: 2 }]);
  });
});
