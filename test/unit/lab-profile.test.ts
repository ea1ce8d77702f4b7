import { describe, expect, it } from 'vitest';
import { labOps, type LiveShape } from '../../src/lab/ops/index.ts';
import { profileKernel } from '../../src/lab/profile/profile-kernel.ts';
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
  lanes = 32,
) {
  const op = labOps.get(registration.op);
  if (!op) throw new Error(registration.op);
  return profileKernel({
    op,
    registration,
    formats: ['q8_0'],
    live: { byOp: { [registration.op]: [liveShapes(registration.op, columns)] }, captured: {} },
    lanes,
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
