import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { labOps, type LiveShape } from '../../src/lab/ops/index.ts';
import { profileKernel, type ProfileTask } from '../../src/lab/profile/profile-kernel.ts';
import { nodePlatform } from '../../src/platform/node.ts';
import { markedLine, type NaiveKernel, naiveKernels } from '../support/naive-kernels.ts';

const wgsl = await nodePlatform().wgsl();

const liveShapes = (op: string, columns: number): LiveShape =>
  op === 'rms_norm'
    ? { dims: { tokens: 1, columns }, params: { columns, eps: 1e-6 } }
    : {
        dims: { tokens: 1, rows: 512, columns, blocks: columns / 32, block_bytes: 34 },
        params: {
          rows: 512,
          blocks: columns / 32,
          x_stride: columns,
          y_stride: 512,
          y_offset: 0,
          has_bias: 0,
          eps: 1e-6,
          scale: 1,
        },
        format: 'q8_0',
      };

function profileOf(
  { registration, columns = 2048 }: Pick<NaiveKernel, 'registration' | 'columns'>,
  {
    lanes = 32,
    isSoftware = false,
    tuning,
  }: Partial<Pick<ProfileTask, 'lanes' | 'isSoftware' | 'tuning'>> = {},
) {
  const op = labOps.get(registration.op);
  if (!op) throw new Error(registration.op);
  return profileKernel({
    op,
    registration,
    formats: ['q8_0'],
    live: { byOp: { [registration.op]: [liveShapes(registration.op, columns)] }, captured: {} },
    tuning,
    lanes,
    isSoftware,
    phase: 'decode',
    wgsl,
    seed: 1,
  });
}

describe('the profile of a naive kernel', () => {
  it.each(naiveKernels)('names the cause: $name', (kernel) => {
    const { hints, builtin } = profileOf(kernel);
    const line = markedLine(kernel.registration.source);
    const messages = hints
      .filter((one) => one.code === kernel.code && one.line === line)
      .map(({ message }) => message);
    expect(messages.join('\n')).toMatch(kernel.remedy);
    expect(builtin?.length).toBeGreaterThan(0);
  });
});

describe('hints on a software adapter', () => {
  const onGpusAlone = ['uncoalesced', 'bank_conflict', 'narrow_loads', 'large_workgroup', 'workgroup_memory'];

  it.each(naiveKernels)('those about GPUs alone are last, and say so: $name', (kernel) => {
    const { hints } = profileOf(kernel, { isSoftware: true });
    const isForGpus = hints.map(({ message }) => message.startsWith('on a GPU: '));
    expect(isForGpus).toEqual(isForGpus.toSorted((a, b) => Number(a) - Number(b)));
    for (const [index, { code }] of hints.entries())
      if (onGpusAlone.includes(code)) expect(isForGpus[index], code).toBe(true);
    expect(
      profileOf(kernel)
        .hints.map(({ message }) => message)
        .join('\n'),
    ).not.toContain('on a GPU: ');
  });

  it('a kernel with barriers has them first, because each takes as long as many loads', () => {
    const kernel = naiveKernels.find(({ code }) => code === 'barriers') as NaiveKernel;
    expect(profileOf(kernel, { isSoftware: true }).hints[0]).toMatchObject({
      code: 'barriers',
      message: expect.stringContaining('on this software adapter'),
    });
  });
});

describe('loads of one address by many lanes', () => {
  const named = (text: string) => naiveKernels.find(({ name }) => name.startsWith(text)) as NaiveKernel;
  const shuffles = (kernel: Pick<NaiveKernel, 'registration' | 'columns'>, isSoftware: boolean) =>
    profileOf(kernel, { isSoftware }).hints.filter(({ message }) => message.includes('subgroupShuffle'));

  it('are a hint on a software adapter, at their line, and on no other', () => {
    const kernel = named('activations that are read again');
    expect(shuffles(kernel, true)).toMatchObject([
      { code: 'repeated_reads', line: markedLine(kernel.registration.source) },
    ]);
    expect(shuffles(kernel, false)).toEqual([]);
  });

  it('are none in a kernel whose lanes load different elements and pass them on', () => {
    const sample = readFileSync(new URL('../../docs/samples/gate_up.wgsl', import.meta.url), 'utf8');
    const registration = {
      name: 'gate_up',
      op: 'norm_gated_matvec',
      source: sample,
      dispatch: { x: 'ceil(rows / WG)' },
      requires: ['subgroups' as const],
    };
    const { hints } = profileOf({ registration }, { isSoftware: true });
    expect(hints.map(({ message }) => message).join('\n')).not.toContain('subgroupShuffle');
    // Workgroups of 16 threads are half a subgroup of most GPUs, and two here.
    for (const { code, message } of hints)
      if (code === 'inactive_lanes') expect(message).toMatch(/^on a GPU: /);
  });
});

describe('the profile of a kernel with tunables', () => {
  const [{ registration: plain } = { registration: undefined as never }] = naiveKernels.filter(
    ({ registration: { op, source } }) => op === 'rms_norm' && source.includes('@workgroup_size(64)'),
  );
  const kernel: Pick<NaiveKernel, 'registration'> = {
    registration: {
      ...plain,
      source: `override WG: u32;\n${plain.source.replace('@workgroup_size(64)', '@workgroup_size(WG)')}`,
      tunables: { WG: [64, 128] },
    },
  };
  const tuned = (columns: number, best: number) => ({
    shape: `tokens=1 columns=${columns}`,
    best: { WG: best },
    best_ms: 1,
    tried: [],
  });

  it('is of the values that its shape was tuned to', () => {
    const { profile, overrides } = profileOf(kernel, { tuning: [tuned(64, 64), tuned(2048, 128)] });
    expect({ overrides, size: profile.workgroup_size }).toEqual({ overrides: { WG: 128 }, size: 128 });
  });

  it('is of the declared value before it was tuned', () => {
    expect(profileOf(kernel).overrides).toEqual({ WG: 64 });
  });
});
