import { describe, expect, it } from 'vitest';
import { hintFor, ratesOf } from '../../src/lab/bench/hints.ts';
import { renderBench } from '../../src/lab/bench/render.ts';
import { beatsRoof, roofMs } from '../../src/lab/bench/roofline.ts';
import { runBench } from '../../src/lab/bench/run-bench.ts';
import type { BenchResult } from '../../src/lab/types.ts';
import { fingerprint, machines, peaks, simulatedPort } from '../support/simulated-bench.ts';

describe('a hint', () => {
  const hint = (ms: number, bytes: number, flops: number, { dispatches = 1, share = 0.5 } = {}) =>
    hintFor({ ms, dispatches, share }, { bytes, flops }, peaks);

  it.each([
    ['memory', 1, 8e6, 1e6, /^memory bound at 80% of copy bandwidth: .*fewer bytes/],
    ['arithmetic', 1, 1e6, 7e7, /^compute bound at 70% of f32 peak: .*cheaper operations/],
    ['caches', 1, 1.5e7, 1e6, /^served by caches at 150% of copy bandwidth/],
    ['launching', 0.05, 1e4, 1e4, /^launch bound, near the 20\.0 us of an empty dispatch: fuse/],
    ['latency', 1, 1e5, 2e6, /^latency bound \(1\.0% of bandwidth, 2\.0% of f32 peak\): /],
    ['half the memory roof', 1, 4e6, 1e6, /^short of its memory roof .*wider loads/],
    ['half the compute roof', 1, 1e6, 3e7, /^short of its compute roof .*independent sums/],
    ['nothing', 0, 1e6, 1e6, /too short for this clock/],
  ])('names what holds a component back: %s', (_, ms, bytes, flops, expected) => {
    expect(hint(ms, bytes, flops)).toMatch(expected);
    expect(hint(ms, bytes, flops)).not.toMatch(/\n/);
  });

  it('counts the dispatches of a component', () => {
    expect(hint(0.15, 1e4, 1e4)).toMatch(/^latency/);
    expect(hint(0.15, 1e4, 1e4, { dispatches: 3 })).toMatch(/^launch/);
  });

  it('says when a component hardly matters', () => {
    expect(hint(1, 8e6, 1e6, { share: 0.012 })).toMatch(/, but only 1\.2% of the step$/);
  });
});

describe('rates and roofs', () => {
  it('are of the nearer roof', () => {
    expect(ratesOf(2, { bytes: 4e6, flops: 1.2e8 }, peaks)).toEqual({
      gbps: 2,
      gflops: 60,
      peakFraction: 0.6,
    });
    expect(ratesOf(0, { bytes: 4e6, flops: 1e6 }, peaks)).toEqual({ gbps: 0, gflops: 0, peakFraction: 0 });
  });

  it('allow caches for little, and cheaper arithmetic than f32', () => {
    expect(roofMs({ bytes: 1e8, flops: 0 }, peaks)).toBeCloseTo(5);
    expect(roofMs({ bytes: 2e8, flops: 0 }, peaks)).toBeCloseTo(20);
    expect(roofMs({ bytes: 0, flops: 4e9 }, peaks)).toBeCloseTo(10);
  });

  it('are beaten only by a good deal, and never where the built-ins beat them', () => {
    expect(beatsRoof(7.9, 10)).toBe(true);
    expect(beatsRoof(8.1, 10)).toBe(false);
    expect(beatsRoof(5, 10, 6)).toBe(false);
    expect(beatsRoof(4, 10, 6)).toBe(true);
  });
});

describe('a bench as text', () => {
  const run = (model: Parameters<typeof simulatedPort>[0]): Promise<BenchResult> =>
    runBench(
      simulatedPort(model),
      { mode: 'quick' },
      { seed: 7, signal: new AbortController().signal, peaks, fingerprint },
    );

  it('says the verdict first, then speeds, components, warnings and how it was measured', async () => {
    const text = renderBench(await run({ speedup: 1.25 }));
    const [headline] = text.split('\n');
    expect(headline).toBe('decode: faster, +25.0% (95% +25.0% to +25.0%), 400 -> 500 tokens/s');
    expect(text).toMatch(
      /^prefill of 64 +2,000 +2,500 +1\.250 +1\.250 to 1\.250 +1\.000 to 1\.000 +faster$/m,
    );
    expect(text).toMatch(/^decode at 512 /m);
    expect(text).toMatch(/^layers\.\*\.ffn\.down x2 +1\.600 +1\.600 /m);
    expect(text).toMatch(/^ {2}builtin:down\.wgsl: short of its memory roof/m);
    expect(text).toMatch(/10\.0 GB\/s copied, 100 GFLOP\/s/);
    expect(text).toMatch(/^method: 8 rounds/m);
    expect(text).toMatch(/my-norm sha256:cdcdcd/);
  });

  it('is at most 100 columns wide, whatever the names', async () => {
    const long = 'x'.repeat(130);
    const kinds = Array.from({ length: 30 }, (_, n) => ({
      id: `layers.${n}.${long}${n}`,
      kernel: long,
      ms: 1 / (n + 1),
      flops: 1,
      bytes: 1,
    }));
    const result = await run({ machine: machines.shared, components: () => kinds, answer: () => 3 });
    const text = renderBench({ ...result, warnings: [...result.warnings, long] });
    const lines = text.split('\n');
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(100);
    expect(text).toMatch(/^and 16 smaller ones, \d\.\d+ ms$/m);
    expect(lines.filter((line) => line.startsWith('warning: ')).length).toBe(result.warnings.length + 1);
  });

  it('leaves components out where there are none', async () => {
    expect(renderBench(await run({ timestamps: false }))).not.toMatch(/component {2}/);
  });
});
