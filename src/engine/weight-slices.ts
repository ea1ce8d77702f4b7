/** Rows out of a stack of weights, as bindings. */
import { scaleBytes, weightFormat } from '../../kernels/formats.ts';
import type { Bound, PlanContext } from './plan-context.ts';
import type { WeightPart, WeightStack } from './weights.ts';

/** A part whose buffers may be ranges of larger ones. */
export interface SlicedPart extends Omit<WeightPart, 'quants' | 'scales'> {
  readonly quants: Bound;
  readonly scales: Bound;
}

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
    const format = weightFormat(part.format);
    const { blocks } = part;
    const { quantBytesPerBlock, scaleGroup } = format;
    const skipped = firstRow - part.firstRow;
    if (!scaleGroup.byRow && (skipped * blocks) % scaleGroup.blocks !== 0) {
      throw new Error(
        `${part.scales.label}: rows from ${skipped} on begin within a group of ${scaleGroup.blocks} scales and cannot be bound alone`,
      );
    }
    const cut = (buffer: GPUBuffer, bytesOf: (rows: number) => number): Bound =>
      bytesOf(rows) === 0 ? buffer : rangeOf(context, buffer, bytesOf(skipped), bytesOf(rows));
    return [
      {
        ...part,
        firstRow,
        rows,
        quants: cut(part.quants, (count) => count * blocks * quantBytesPerBlock),
        scales: cut(part.scales, (count) => scaleBytes(format, { rows: count, blocks })),
      },
    ];
  });
}

/** Bytes of a buffer, from a whole word on, as a binding: a view where WebGPU allows one at that offset, else a copy. */
export function rangeOf(context: PlanContext, buffer: GPUBuffer, offset: number, size: number): Bound {
  const { device } = context.gpu;
  if (offset % device.limits.minStorageBufferOffsetAlignment === 0) {
    // Buffers are whole 16-byte words, and shaders read quants as such.
    return { buffer, offset, size: Math.ceil(size / 16) * 16 };
  }
  const copy = context.pool.storage(`${buffer.label}@${offset}`, size);
  const encoder = device.createCommandEncoder();
  encoder.copyBufferToBuffer(buffer, offset, copy, 0, size);
  device.queue.submit([encoder.finish()]);
  return copy;
}
