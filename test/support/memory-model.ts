/** A model file made of values, for models too small or unusual to exist as files. */
import { quantize } from '../../kernels/reference/index.ts';
import type { Metadata, ModelFile, TensorInfo } from '../../src/engine/formats/model-file.ts';

/** @param tensors values and shape, outermost first; stored as F32 */
export function memoryModel(
  metadata: Metadata,
  tensors: Readonly<Record<string, { shape: readonly number[]; values: Float32Array }>>,
): ModelFile {
  const infos = new Map<string, TensorInfo>();
  let offset = 0;
  for (const [name, { shape, values }] of Object.entries(tensors)) {
    infos.set(name, { name, type: 'F32', shape, offset, sizeBytes: values.byteLength });
    offset += values.byteLength;
  }
  return {
    format: 'gguf',
    name: 'memory',
    sizeBytes: offset,
    metadata,
    tensors: infos,
    async readRows({ name, shape }, firstRow, rows) {
      const { values } = tensors[name]!;
      const width = shape.at(-1)!;
      return quantize('F32', values.subarray(firstRow * width, (firstRow + rows) * width));
    },
    async close() {},
  };
}
