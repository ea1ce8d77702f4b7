/** Binds row ranges of stacked weights. */
import { scaleSizeBytes, weightFormat } from '../../../kernels/formats.ts';
import type { BoundBuffer, PlanContext } from './plan-context.ts';
import type { WeightPart, WeightStack } from '../loading/weights.ts';

/** A weight part whose buffers may be ranges of larger buffers. */
export interface SlicedPart extends Omit<WeightPart, 'quants' | 'scales'> {
  readonly quants: BoundBuffer;
  readonly scales: BoundBuffer;
}

/** The parts of a stack, or of `rows` of its rows from `first` on. */
export function slicedPartsOf(
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
    const skippedRows = firstRow - part.firstRow;
    if (!scaleGroup.restartsEachRow && (skippedRows * blocks) % scaleGroup.blocks !== 0) {
      throw new Error(
        `${part.scales.label}: rows from ${skippedRows} on begin within a group of ${scaleGroup.blocks} scales and cannot be bound alone`,
      );
    }
    const bindRows = (buffer: GPUBuffer, bytesOf: (rows: number) => number): BoundBuffer =>
      bytesOf(rows) === 0 ? buffer : bindRange(context, buffer, bytesOf(skippedRows), bytesOf(rows));
    return [
      {
        ...part,
        firstRow,
        rows,
        quants: bindRows(part.quants, (count) => count * blocks * quantBytesPerBlock),
        scales: bindRows(part.scales, (count) => scaleSizeBytes(format, { rows: count, blocks })),
      },
    ];
  });
}

/** Binds a byte range of a buffer: in place when WebGPU allows a binding at that offset, otherwise as a copy. */
export function bindRange(
  context: PlanContext,
  buffer: GPUBuffer,
  offset: number,
  size: number,
): BoundBuffer {
  const { device } = context.gpu;
  if (offset % device.limits.minStorageBufferOffsetAlignment === 0) {
    // Buffers have whole 16-byte words, and shaders read quants as such.
    return { buffer, offset, size: Math.ceil(size / 16) * 16 };
  }
  const copy = context.pool.storage(`${buffer.label}@${offset}`, size);
  const encoder = device.createCommandEncoder();
  encoder.copyBufferToBuffer(buffer, offset, copy, 0, size);
  device.queue.submit([encoder.finish()]);
  return copy;
}
