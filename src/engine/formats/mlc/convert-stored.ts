import { decodeFloats, isFloatType } from '../float-bytes.ts';
import type { ModelConfig } from '../hugging-face/config.ts';
import type { ModelFamily } from '../hugging-face/family.ts';
import {
  isIgnored,
  type ConvertedTensor,
  rejectTensors,
  findTarget,
} from '../hugging-face/convert-tensors.ts';
import {
  readConstantRows,
  interleavedSourceRow,
  readInterleavedRows,
  type RowReader,
} from '../hugging-face/tensor-rows.ts';
import { bytesOfRow, rowsOf } from '../rows.ts';
import { type TensorPart, splitFusedTensor } from './tensor-names.ts';
import type { StoredMatrix } from './stored-tensors.ts';

/**
 * Converts stored matrices to tensors with GGUF names; a fused matrix becomes several tensors.
 * @param problems texts about invalid arrays, which this throws together with its own
 * @throws ModelFileError `unsupported_tensors` or `bad_tensors`, naming the tensors. A tensor must not be dropped
 *   silently: the model would compute something else
 */
export const convertStoredTensors = (
  all: readonly StoredMatrix[],
  { name, family, config }: { name: string; family: ModelFamily; config: ModelConfig },
  problems: string[],
): Map<string, ConvertedTensor> => {
  const layers = config.number('num_hidden_layers', 'n_layer');
  const findTargetFor = (tensor: string) => findTarget(tensor, family, layers);
  const tensors = new Map<string, ConvertedTensor>();
  const unknown: string[] = [];
  for (const stored of all) {
    const total = rowCountOf(stored);
    const parts = splitFusedTensor(
      stored.base,
      config,
      (part) => findTargetFor(`${part}.weight`) !== undefined,
    );
    const partRows = parts.reduce((sum, { rows = total }) => sum + rows, 0);
    if (partRows !== total) {
      problems.push(
        `'${stored.base}' has ${total} rows, but ${parts.map((part) => part.name).join(', ')} need ${partRows}`,
      );
      continue;
    }
    for (const part of parts) {
      const fullName = `${part.name}.${stored.kind}`;
      if (isIgnored(fullName, family, config)) continue;
      const target = findTargetFor(fullName);
      if (!target) unknown.push(`'${fullName}'`);
      else {
        const heads = target.interleaveHeads && config.number(...target.interleaveHeads);
        tensors.set(target.name, convertPart(stored, { part, name: target.name, heads }));
      }
    }
  }
  rejectTensors('unsupported_tensors', name, unknown, {
    reason: `unknown for the architecture ${family.architecture}; the model would be wrong without them`,
  });
  rejectTensors('bad_tensors', name, problems, { reason: 'the weights do not match mlc-chat-config.json' });
  for (const [vector, values] of family.computeVectors?.(config) ?? []) {
    const info = { name: vector, type: 'F32', shape: [values.length], offset: 0 } as const;
    tensors.set(vector, { info: { ...info, sizeBytes: values.byteLength }, read: readConstantRows(values) });
  }
  return tensors;
};

/** Rows of a matrix, or elements of a vector. */
const rowCountOf = ({ shape }: StoredMatrix): number =>
  shape.length === 1 ? (shape[0] ?? 0) : rowsOf({ shape });

const convertPart = (
  stored: StoredMatrix,
  { part, name, heads }: { part: TensorPart; name: string; heads: number | undefined },
): ConvertedTensor => {
  const { first, rows = rowCountOf(stored) } = part;
  // MLC's Gemma norms already include the 1 that Hugging Face checkpoints leave out.
  if (stored.shape.length === 1) return convertVector(stored, { name, first, count: rows, heads });
  const shape = [rows, stored.shape[1] ?? 0];
  const rowBytes = bytesOfRow({ type: stored.type, shape });
  const readPart: RowReader = (firstRow, count, into) => stored.read(first + firstRow, count, into);
  return {
    info: { name, type: stored.type, shape, offset: first * rowBytes, sizeBytes: rows * rowBytes },
    read:
      heads === undefined ? readPart : readInterleavedRows(readPart, { rowBytes, headRows: rows / heads }),
  };
};

const convertVector = (
  stored: StoredMatrix,
  { name, first, count, heads }: { name: string; first: number; count: number; heads: number | undefined },
): ConvertedTensor => {
  const { type } = stored;
  if (!isFloatType(type)) throw new RangeError(`${name}: a vector must not be quantized`);
  return {
    info: { name, type: 'F32', shape: [count], offset: first, sizeBytes: 4 * count },
    async read(_firstRow, rows, into) {
      const all = new Float32Array(stored.shape[0] ?? 0);
      decodeFloats(type, await stored.read(0, 1), all);
      const values = all.slice(first, first + rows * count);
      const interleaved =
        heads === undefined
          ? values
          : values.map((_, at) => values[interleavedSourceRow(at, count / heads)] ?? 0);
      return readConstantRows(interleaved)(0, 1, into);
    },
  };
};
