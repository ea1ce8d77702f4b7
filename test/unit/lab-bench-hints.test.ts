import { describe, expect, it } from 'vitest';
import { hintFor, computeRates } from '../../src/lab/bench/hints.ts';
import { exceedsRoof, minimumMs } from '../../src/lab/bench/roofline.ts';
import { peaks } from '../support/simulated-bench.ts';

describe('a hint', () => {
  const hint = (
    ms: number,
    bytes: number,
    flops: number,
    { dispatches = 1, share = 0.5, isSoftware = false } = {},
  ) => hintFor({ ms, dispatches, share }, { bytes, flops }, { peaks, isSoftware });

  it.each([
    ['memory', 1, 8e6, 1e6, /^memory bound at 80% of copy bandwidth: .*fewer bytes/],
    ['arithmetic', 1, 1e6, 7e7, /^compute bound at 70% of f32 peak: .*cheaper operations/],
    ['caches', 1, 1.5e7, 1e6, /^served by caches at 150% of copy bandwidth/],
    ['launching', 0.05, 1e4, 1e4, /^launch bound, near the 20\.0 us of an empty dispatch: fuse/],
    ['latency', 1, 1e5, 2e6, /^latency bound \(1\.0% of bandwidth, 2\.0% of f32 peak\): /],
    ['half the memory roof', 1, 4e6, 1e6, /^below its memory roof .*wider loads/],
    ['half the compute roof', 1, 1e6, 3e7, /^below its compute roof .*independent sums/],
    ['nothing', 0, 1e6, 1e6, /too short for this clock/],
  ])('names what holds a component back: %s', (_, ms, bytes, flops, expected) => {
    expect(hint(ms, bytes, flops)).toMatch(expected);
    expect(hint(ms, bytes, flops)).not.toMatch(/\n/);
  });

  it.each([
    ['latency', 1, 1e5, 2e6],
    ['half the memory roof', 1, 4e6, 1e6],
    ['arithmetic', 1, 1e6, 7e7],
  ])('of a software adapter proposes nothing that helps on GPUs alone: %s', (_, ms, bytes, flops) => {
    const gpuOnly = /wider loads|vec4|f16|more threads/;
    expect(hint(ms, bytes, flops)).toMatch(gpuOnly);
    expect(hint(ms, bytes, flops, { isSoftware: true })).not.toMatch(gpuOnly);
  });

  it('counts the dispatches of a component', () => {
    expect(hint(0.15, 1e4, 1e4)).toMatch(/^latency/);
    expect(hint(0.15, 1e4, 1e4, { dispatches: 3 })).toMatch(/^launch/);
  });

  it('notes if a component takes little of the step', () => {
    expect(hint(1, 8e6, 1e6, { share: 0.012 })).toMatch(/, but only 1\.2% of the step$/);
  });
});

describe('rates and roofs', () => {
  it('are relative to the binding roof', () => {
    expect(computeRates(2, { bytes: 4e6, flops: 1.2e8 }, peaks)).toEqual({
      gbps: 2,
      gflops: 60,
      bandwidthFraction: 0.2,
      computeFraction: 0.6,
      peakFraction: 0.6,
    });
    expect(computeRates(0, { bytes: 4e6, flops: 1e6 }, peaks)).toEqual({
      gbps: 0,
      gflops: 0,
      bandwidthFraction: 0,
      computeFraction: 0,
      peakFraction: 0,
    });
  });

  it('account for caches with small data, and for arithmetic faster than f32', () => {
    expect(minimumMs({ bytes: 1e8, flops: 0 }, peaks)).toBeCloseTo(5);
    expect(minimumMs({ bytes: 2e8, flops: 0 }, peaks)).toBeCloseTo(20);
    expect(minimumMs({ bytes: 0, flops: 4e9 }, peaks)).toBeCloseTo(10);
  });

  it('are exceeded only beyond a tolerance, and never if the built-in kernels exceed them', () => {
    expect(exceedsRoof(7.9, 10)).toBe(true);
    expect(exceedsRoof(8.1, 10)).toBe(false);
    expect(exceedsRoof(5, 10, 6)).toBe(false);
    expect(exceedsRoof(4, 10, 6)).toBe(true);
  });
});
