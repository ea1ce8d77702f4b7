/** What lathe-bench times is compared, at the size at which it is timed. */
import { beforeAll, describe, expect, it } from 'vitest';
import type { TimingJob } from '../../bench/wgsl/protocol.ts';
import { timeKernels } from '../../bench/wgsl/time-kernels.ts';
import { openGateDevice } from '../../src/lab/gate/open-gate-device.ts';
import type { GateDevice } from '../../src/lab/gate/references.ts';
import { renderStub } from '../../src/lab/stubs.ts';
import type { KernelRegistration } from '../../src/lab/types.ts';
import { everyNth } from '../support/tier.ts';

let gateDevice: GateDevice;
beforeAll(async () => {
  gateDevice = await openGateDevice(undefined);
});

function stub(
  op: string,
  format: string | undefined,
  change = (source: string) => source,
): KernelRegistration {
  const { source, dispatch, overrides, requires } = renderStub(gateDevice.wgsl, op, 'plain', format);
  const changed = change(source);
  return { name: 'stub', op, source: changed, dispatch, overrides, requires: [...requires] };
}

const head = { heads: 4, kv_heads: 2, head_dim: 32 };
const jobs: readonly (Pick<TimingJob, 'op' | 'dims'> & { readonly format?: string })[] = [
  { op: 'matvec', format: 'q4_k', dims: { tokens: 1, rows: 40, columns: 512 } },
  { op: 'rms_norm', dims: { tokens: 5, columns: 128 } },
  { op: 'attention', dims: { tokens: 7, ...head, context: 70 } },
  { op: 'matmul_add', format: 'q8_0', dims: { tokens: 9, rows: 40, columns: 64 } },
  { op: 'embed', format: 'f16', dims: { tokens: 3, vocabulary: 50, columns: 64 } },
  { op: 'rope_kv_write', dims: { tokens: 3, ...head, rotary: 32, context: 40 } },
  { op: 'sample', dims: { tokens: 2, vocabulary: 500 } },
  { op: 'head_norm', dims: { tokens: 3, count: 4, head_dim: 32 } },
  { op: 'attention_decode', dims: { tokens: 1, ...head, context: 90 } },
  { op: 'norm_gated_matmul', format: 'q4_0', dims: { tokens: 4, rows: 32, columns: 64 } },
];
const effort = { seed: 3, rounds: 3, rotatedBytes: 1 << 16 };

describe('a stub and the built-in kernels are right where they are timed', () => {
  it.each(everyNth(jobs, 3))('$op', async ({ op, format, dims }) => {
    const result = await timeKernels(gateDevice, {
      op,
      format,
      dims,
      ...effort,
      kernels: { stub: stub(op, format) },
    });
    expect(Object.keys(result.timings)).toEqual(['stub', 'built-in']);
    for (const { samples, wrong } of Object.values(result.timings)) {
      expect(wrong).toBeUndefined();
      expect(samples.length).toBe(3);
      expect(Math.min(...samples)).toBeGreaterThan(0);
    }
    expect(result.copies).toBeGreaterThan(1);
  });
});

describe('a kernel is found that', () => {
  const faults: readonly (readonly [what: string, change: (source: string) => string, message: RegExp])[] = [
    [
      'writes nothing, beside others that write the same outputs',
      (source) => source.replace(/y\[start \+ c\] = [^;]*;/, ''),
      /got NaN/,
    ],
    [
      'is 5 % too large',
      (source) => source.replace(/(y\[start \+ c\] = )([^;]*);/, '$1 1.05 * ($2);'),
      /expected .* got/,
    ],
  ];
  it.each(faults)('%s', async (_what, change, message) => {
    const honest = stub('rms_norm', undefined);
    const broken = stub('rms_norm', undefined, change);
    expect(broken.source).not.toBe(honest.source);
    const { timings } = await timeKernels(gateDevice, {
      op: 'rms_norm',
      dims: { tokens: 4, columns: 256 },
      ...effort,
      kernels: { honest, broken },
    });
    expect(timings['honest']?.wrong).toBeUndefined();
    expect(timings['broken']?.wrong).toMatch(message);
  });

  it('does not compile', async () => {
    const job = { op: 'rms_norm', dims: { tokens: 4, columns: 256 }, ...effort };
    const broken = stub('rms_norm', undefined, (source) => `${source}\nfn broken( {`);
    await expect(timeKernels(gateDevice, { ...job, kernels: { broken } })).rejects.toThrow(/^broken: /);
  });
});
