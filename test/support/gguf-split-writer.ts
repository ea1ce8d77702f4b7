import { type GgufFile, type GgufTensor, type GgufValue, ggufBytes, scalar } from './gguf-writer.ts';

export const splitPartName = (model: string, part: number, count: number): string => {
  const digits = (value: number) => String(value).padStart(5, '0');
  return `${model}-${digits(part)}-of-${digits(count)}.gguf`;
};

/**
 * The parts of a split set by name: all metadata in the first, split metadata in each, tensors distributed in order.
 * @param instead the tensors of a part (from 0) instead of its own
 * @param everywhere metadata for all parts
 */
export const splitGguf = (
  model: string,
  file: GgufFile,
  count: number,
  instead: Readonly<Record<number, readonly GgufTensor[]>> = {},
  everywhere: readonly (readonly [string, GgufValue])[] = [],
): Record<string, Uint8Array<ArrayBuffer>> => {
  const each = Math.ceil(file.tensors.length / count);
  return Object.fromEntries(
    Array.from({ length: count }, (_, index) => [
      splitPartName(model, index + 1, count),
      ggufBytes({
        ...file,
        metadata: [
          ...(index === 0 ? file.metadata : everywhere),
          ['split.no', scalar('u16', index)],
          ['split.count', scalar('u16', count)],
          ['split.tensors.count', scalar('i32', file.tensors.length)],
        ],
        tensors: instead[index] ?? file.tensors.slice(index * each, (index + 1) * each),
      }),
    ]),
  );
};
