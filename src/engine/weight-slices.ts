/** Rows out of a stack of weights, as bindings. */
import { weightFormats } from '../../kernels/formats.ts';
import type { Bound, PlanContext } from './plan-context.ts';
import type { WeightPart, WeightStack } from './weights.ts';

/** A part whose buffers may be ranges of larger ones. */
export interface SlicedPart extends Omit<WeightPart, 'quants' | 'scales'> {
  readonly quants: Bound;
  readonly scales: Bound;
}

export const formatOf = (name: string) => {
  const format = Object.values(weightFormats).find((one) => one.name === name);
  if (!format) throw new Error(`unknown weight format '${name}'`);
  return format;
};

/** The parts of a stack, or of `rows` rows of it from `first` on. */
export function partsOf(
  context: PlanContext,
  { parts }: WeightStack,
  slice?: { first: number; rows: number },
): readonly SlicedPart[] {
  if (!slice) return parts;
  const end = slice.first + slice.rows;
  return parts.flatMap((part): SlicedPart[] => {
    const firstRow = Math.max(part.firstRow, slice.first);
    const rows = Math.min(part.firstRow + part.rows, end) - firstRow;
    if (rows <= 0) return [];
    const { quantBytesPerBlock, scaleBytesPerBlock } = formatOf(part.format);
    const skipped = (firstRow - part.firstRow) * part.blocks;
    const count = rows * part.blocks;
    const cut = (buffer: GPUBuffer, bytes: number): Bound =>
      bytes === 0 ? buffer : rangeOf(context, buffer, skipped * bytes, count * bytes);
    return [
      {
        ...part,
        firstRow,
        rows,
        quants: cut(part.quants, quantBytesPerBlock),
        scales: cut(part.scales, scaleBytesPerBlock),
      },
    ];
  });
}

/** Bytes of a buffer as a binding: a view where WebGPU allows one at that offset, else a copy. */
export function rangeOf(context: PlanContext, buffer: GPUBuffer, offset: number, size: number): Bound {
  const { device } = context.gpu;
  if (offset % device.limits.minStorageBufferOffsetAlignment === 0) return { buffer, offset, size };
  // Copies are of whole words; half a word can only be left over by odd rows of odd blocks.
  if (offset % 4 !== 0) {
    throw new Error(
      `${buffer.label}: rows at byte ${offset} do not begin at a whole word and cannot be bound alone`,
    );
  }
  const copy = context.pool.storage(`${buffer.label}@${offset}`, size);
  const encoder = device.createCommandEncoder();
  encoder.copyBufferToBuffer(buffer, offset, copy, 0, Math.ceil(size / 4) * 4);
  device.queue.submit([encoder.finish()]);
  return copy;
}
