import { summarizeList } from '../../util/summarize-list.ts';
import { quantizers } from '../../../kernels/quantize/index.ts';
import { requireFinite } from '../loading/finite.ts';
import type { QuantizeType } from '../types.ts';
import { decodeFloats, type FloatType, isFloatType } from './float-bytes.ts';
import { type ModelFile, ModelFileError, type TensorInfo, tensorTypes } from './model-file.ts';
import { bytesOfRow, checkRows, columnsOf, rowsOf } from './rows.ts';

/** Weights that are quantized at a time; small enough to stay in the CPU caches. */
const weightsPerChunk = 1 << 18;

/**
 * Whether a tensor keeps its float type. Position and token type embeddings are lookups: quantizing them saves no
 * bandwidth and makes neighboring positions equal. Router weights are small, and rounding them changes which experts
 * are selected. Expert biases are vectors.
 */
const staysUnquantized = (name: string): boolean =>
  ['position_embd.weight', 'token_types.weight'].includes(name) || /\.bias$|\.ffn_gate_inp\./.test(name);

interface QuantizedTensor {
  readonly info: TensorInfo;
  /** The tensor as stored in the file. */
  readonly source: TensorInfo & { readonly type: FloatType };
  readonly type: QuantizeType;
}

/**
 * Wraps a model so that F32, F16 and BF16 matrices are quantized while they are read, a few rows at a time. The bytes
 * equal those of ggml's quantizer. Quantized tensors are unchanged. `notes` lists tensors that got another type.
 * @throws ModelFileError `nothing_to_quantize`
 */
export const quantizeModelFile = (file: ModelFile, requestedType: QuantizeType): ModelFile => {
  const quantizedTensors = new Map<string, QuantizedTensor>();
  const notes = new Notes();
  const outputTensorName = findOutputTensorName(file);
  for (const tensor of file.tensors.values()) {
    const { type, name } = tensor;
    if (!isFloatType(type) || tensor.shape.length < 2 || staysUnquantized(name)) continue;
    const typeForRows = chooseTypeForRows(tensor, requestedType);
    // Later layers average out rounding errors, but nothing follows the output matrix.
    const needsHigherPrecision =
      requestedType === 'Q4_K' && typeForRows === requestedType && name === outputTensorName;
    const target = needsHigherPrecision ? 'Q8_0' : typeForRows;
    if (needsHigherPrecision)
      notes.add(`Q8_0 instead of ${requestedType}, because it computes the logits`, name);
    else if (target !== requestedType) notes.add(describeFallback(tensor, requestedType, target), name);
    if (!target) continue;
    const sizeBytes = rowsOf(tensor) * bytesOfRow({ type: target, shape: tensor.shape });
    quantizedTensors.set(name, {
      info: { ...tensor, type: target, sizeBytes },
      source: { ...tensor, type },
      type: target,
    });
  }
  if (quantizedTensors.size === 0) throw createNothingToQuantizeError(file, requestedType, notes);
  return {
    ...file,
    tensors: new Map(
      [...file.tensors].map(([name, info]) => [name, quantizedTensors.get(name)?.info ?? info]),
    ),
    notes: [...(file.notes ?? []), ...notes.toSentences()],
    async readRows(tensor, firstRow, rows, into) {
      const quantizedTensor = quantizedTensors.get(tensor.name);
      if (!quantizedTensor) return file.readRows(tensor, firstRow, rows, into);
      checkRows(quantizedTensor.info, firstRow, rows);
      const bytes = rows * bytesOfRow(quantizedTensor.info);
      const out = into ? into.subarray(0, bytes) : new Uint8Array(bytes);
      await encodeRows(file, quantizedTensor, { firstRow, rows, out });
      return out;
    },
    close: () => file.close(),
  };
};

const encodeRows = async (
  file: ModelFile,
  { source, info, type }: QuantizedTensor,
  { firstRow, rows, out }: { firstRow: number; rows: number; out: Uint8Array },
): Promise<void> => {
  const columns = columnsOf(source);
  const rowBytes = bytesOfRow(info);
  const step = Math.max(1, Math.floor(weightsPerChunk / columns));
  const values = new Float32Array(Math.min(step, rows) * columns);
  for (let row = 0; row < rows; row += step) {
    const count = Math.min(step, rows - row);
    const part = values.subarray(0, count * columns);
    const bytes = await file.readRows(source, firstRow + row, count);
    // Some quantizers turn NaN and Infinity into ordinary weights, which would hide a damaged file.
    requireFinite(file.name, source, bytes, firstRow + row);
    decodeFloats(source.type, bytes, part);
    out.set(quantizers[type](part), row * rowBytes);
  }
};

/** The name of the matrix that computes the logits: the token embedding when the model has no output matrix. */
const findOutputTensorName = ({ tensors }: ModelFile): string =>
  tensors.has('output.weight') ? 'output.weight' : 'token_embd.weight';

/** The requested type, or Q8_0, whichever first fits the row length; undefined when neither does. */
const chooseTypeForRows = (tensor: TensorInfo, requestedType: QuantizeType): QuantizeType | undefined => {
  const fits = (type: QuantizeType) => columnsOf(tensor) % tensorTypes[type].blockElements === 0;
  return [requestedType, 'Q8_0' as const].find(fits);
};

const describeFallback = (
  tensor: TensorInfo,
  requestedType: QuantizeType,
  target: QuantizeType | undefined,
): string => {
  const block = tensorTypes[target ? requestedType : 'Q8_0'].blockElements;
  const becomes = target ? `${target} instead of ${requestedType}` : `kept as ${tensor.type}`;
  return `${becomes}, because rows of ${columnsOf(tensor)} weights are not a multiple of ${block}`;
};

/** Collects notes about tensors and groups the tensors that share a note. */
class Notes {
  readonly #names = new Map<string, string[]>();

  add(note: string, name: string): void {
    const names = this.#names.get(note);
    if (names) names.push(name);
    else this.#names.set(note, [name]);
  }

  toSentences(): string[] {
    return [...this.#names].map(([note, names]) => `${summarizeList(names, ', ', 3)}: ${note}`);
  }
}

const createNothingToQuantizeError = (
  file: ModelFile,
  requestedType: QuantizeType,
  notes: Notes,
): ModelFileError => {
  const types = [...new Set([...file.tensors.values()].map(({ type }) => type))].join(', ');
  const reason = notes.toSentences().join('; ') || `its tensors are ${types}`;
  return new ModelFileError(
    'nothing_to_quantize',
    `${file.name}: nothing to quantize to ${requestedType.toLowerCase()}: ${reason}; load the model without quantizing it`,
  );
};
