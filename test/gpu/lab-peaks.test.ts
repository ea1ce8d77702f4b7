/** Measured peaks of an adapter: finite, plausible, and from verified results. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Gpu, openGpu } from '../../src/engine/gpu/device.ts';
import { measureCopyBandwidth } from '../../src/lab/bench/copy-bandwidth.ts';
import { measurePeaks } from '../../src/lab/bench/peaks.ts';
import { testPlatform } from '../support/test-platform.ts';
import { runsRest } from '../support/tier.ts';

let gpu: Gpu;
beforeAll(async () => {
  const platform = testPlatform();
  gpu = await openGpu(await platform.requestAdapter({}), platform.backend);
});
afterAll(() => gpu.device.destroy());

/** A device that modifies shaders. */
function tampered(change: (code: string) => string): Gpu {
  const { device } = gpu;
  const changed = new Proxy(device, {
    get(target, name) {
      if (name === 'createShaderModule')
        return (descriptor: GPUShaderModuleDescriptor) =>
          target.createShaderModule({ ...descriptor, code: change(descriptor.code) });
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
  return { ...gpu, device: changed };
}

describe('peaks of this adapter', () => {
  it('are finite, positive and plausible', async () => {
    const peaks = await measurePeaks(gpu);
    for (const value of Object.values(peaks)) expect(Number.isFinite(value)).toBe(true);
    // From a busy old netbook to ten times the fastest GPU.
    expect(peaks.gbps).toBeGreaterThan(0.01);
    expect(peaks.gbps).toBeLessThan(1e5);
    expect(peaks.cachedGbps).toBeGreaterThanOrEqual(peaks.gbps);
    expect(peaks.cachedGbps).toBeLessThan(1e6);
    expect(peaks.gflops).toBeGreaterThan(0.05);
    expect(peaks.gflops).toBeLessThan(1e6);
    expect(peaks.dispatchMs).toBeGreaterThanOrEqual(0);
    expect(peaks.dispatchMs).toBeLessThan(10_000);
  });

  it.runIf(runsRest)(
    'end at the next pause of a bench that was cancelled, and leave nothing behind',
    async () => {
      let pauses = 0;
      const cancelled = measurePeaks(gpu, () =>
        ++pauses < 4 ? Promise.resolve() : Promise.reject(new Error('cancelled')),
      );
      await expect(cancelled).rejects.toThrow('cancelled');
      expect(pauses).toBe(4);
      expect((await measurePeaks(gpu)).gbps).toBeGreaterThan(0.01);
    },
  );

  it('are rejected if arithmetic was skipped', async () => {
    const lazy = tampered((code) =>
      code.replace('x0 = fma(x0, factor, term);', '').replace('i < params.steps', 'i < params.steps / 2u'),
    );
    await expect(measurePeaks(lazy)).rejects.toThrow(/computed [-\d.]+ in thread \d+ .* expected [-\d.]+/);
  });

  it('are rejected if reads were skipped', async () => {
    const lazy = tampered((code) => code.replace('all += words[', 'all += 0u * words['));
    await expect(measurePeaks(lazy)).rejects.toThrow(/computed [-\d.]+ in thread \d+ .* expected [-\d.]+/);
  });
});

it('the copy bandwidth reports its method', async () => {
  const copied = await measureCopyBandwidth(gpu.device, { software: gpu.caps.software, rounds: 1 });
  expect(copied.bytesPerSecond).toBeGreaterThan(1e7);
  expect(copied.bufferBytes).toBeGreaterThan(2 ** 20);
  expect(['kernel', 'copyBufferToBuffer']).toContain(copied.method);
});
