import type { ModelFile, TensorInfo, TensorType } from '../../src/engine/formats/model-file.ts';
import { tensorTypes } from '../../src/engine/formats/model-file.ts';
import { random } from './kernel-harness.ts';
import { sampleRows } from './random-blocks.ts';

/**
 * A model file whose matrices are of other types, with random weights of the same size. For types that GGUF cannot hold
 * and for mixtures of them.
 * @param typeOf by the name's last part, `attn_q`; a matrix without one keeps its own type and weights
 */
export function retyped(file: ModelFile, typeOf: (part: string) => TensorType | undefined): ModelFile {
  const contents = new Map<string, Uint8Array>();
  const tensors = new Map<string, TensorInfo>();
  for (const [name, tensor] of file.tensors) {
    const [rows = 1, columns] = tensor.shape;
    const type = columns === undefined ? undefined : typeOf(name.split('.').at(-2) as string);
    if (type === undefined || columns === undefined) {
      tensors.set(name, tensor);
      continue;
    }
    const scale = (name.startsWith('token_embd') ? 4 : 1) / Math.sqrt(columns);
    const bytes = sampleRows(type, { rows, columns }, random(tensors.size), scale);
    const { blockElements, blockBytes } = tensorTypes[type];
    const sizeBytes = rows * Math.ceil(columns / blockElements) * blockBytes;
    contents.set(name, bytes);
    tensors.set(name, { ...tensor, type, sizeBytes });
  }
  return {
    ...file,
    tensors,
    async readRows(tensor, first, rows, into) {
      const bytes = contents.get(tensor.name);
      if (!bytes) return file.readRows(tensor, first, rows, into);
      const rowBytes = tensor.sizeBytes / (tensor.shape[0] ?? 1);
      return bytes.slice(first * rowBytes, (first + rows) * rowBytes);
    },
    close: () => file.close(),
  };
}
