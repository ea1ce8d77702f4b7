import { few } from '../few.ts';
import { quantizers } from '../../../kernels/quantize/index.ts';
import { refuseNotFinite } from '../finite.ts';
import type { QuantizeType } from '../types.ts';
import { decodeFloats, type FloatType, isFloatType } from './float-bytes.ts';
import { type ModelFile, ModelFileError, type TensorInfo, tensorTypes } from './model-file.ts';
import { bytesOfRow, checkRows, columnsOf, rowsOf } from './rows.ts';

/** Weights that are quantized at a time; small enough to stay in the CPU caches. */
const chunkWeights = 1 << 18;

/**
 * Whether a tensor keeps its float type. Position and token type embeddings are lookups: quantizing them saves no
 * bandwidth and makes neighboring positions equal. Router weights are small, and rounding them changes which experts
 * are selected. Expert biases are vectors.
 */
const isKept = (name: string): boolean =>
  ['position_embd.weight', 'token_types.weight'].includes(name) || /\.bias$|\.ffn_gate_inp\./.test(name);

interface Planned {
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
export const quantized = (file: ModelFile, wanted: QuantizeType): ModelFile => {
  const planned = new Map<string, Planned>();
  const notes = new Notes();
  const head = headOf(file);
  for (const tensor of file.tensors.values()) {
    const { type, name } = tensor;
    if (!isFloatType(type) || tensor.shape.length < 2 || isKept(name)) continue;
    const fitting = fittingType(tensor, wanted);
    // Later layers average out rounding errors, but nothing follows the output matrix.
    const finer = wanted === 'Q4_K' && fitting === wanted && name === head;
    const target = finer ? 'Q8_0' : fitting;
    if (finer) notes.add(`Q8_0 instead of ${wanted}, because it computes the logits`, name);
    else if (target !== wanted) notes.add(misfit(tensor, wanted, target), name);
    if (!target) continue;
    const sizeBytes = rowsOf(tensor) * bytesOfRow({ type: target, shape: tensor.shape });
    planned.set(name, {
      info: { ...tensor, type: target, sizeBytes },
      source: { ...tensor, type },
      type: target,
    });
  }
  if (planned.size === 0) throw nothingToQuantize(file, wanted, notes);
  return {
    ...file,
    tensors: new Map([...file.tensors].map(([name, info]) => [name, planned.get(name)?.info ?? info])),
    notes: [...(file.notes ?? []), ...notes.sentences()],
    async readRows(tensor, firstRow, rows, into) {
      const plan = planned.get(tensor.name);
      if (!plan) return file.readRows(tensor, firstRow, rows, into);
      checkRows(plan.info, firstRow, rows);
      const bytes = rows * bytesOfRow(plan.info);
      const out = into ? into.subarray(0, bytes) : new Uint8Array(bytes);
      await encodeRows(file, plan, { firstRow, rows, out });
      return out;
    },
    close: () => file.close(),
  };
};

const encodeRows = async (
  file: ModelFile,
  { source, info, type }: Planned,
  { firstRow, rows, out }: { firstRow: number; rows: number; out: Uint8Array },
): Promise<void> => {
  const columns = columnsOf(source);
  const rowBytes = bytesOfRow(info);
  const step = Math.max(1, Math.floor(chunkWeights / columns));
  const values = new Float32Array(Math.min(step, rows) * columns);
  for (let row = 0; row < rows; row += step) {
    const count = Math.min(step, rows - row);
    const part = values.subarray(0, count * columns);
    const bytes = await file.readRows(source, firstRow + row, count);
    // Some quantizers turn NaN and Infinity into ordinary weights, which would hide a damaged file.
    refuseNotFinite(file.name, source, bytes, firstRow + row);
    decodeFloats(source.type, bytes, part);
    out.set(quantizers[type](part), row * rowBytes);
  }
};

/** The name of the matrix that computes the logits: the token embedding when the model has no output matrix. */
const headOf = ({ tensors }: ModelFile): string =>
  tensors.has('output.weight') ? 'output.weight' : 'token_embd.weight';

/** The requested type, or Q8_0, whichever first fits the row length; undefined when neither does. */
const fittingType = (tensor: TensorInfo, wanted: QuantizeType): QuantizeType | undefined => {
  const fits = (type: QuantizeType) => columnsOf(tensor) % tensorTypes[type].blockElements === 0;
  return [wanted, 'Q8_0' as const].find(fits);
};

const misfit = (tensor: TensorInfo, wanted: QuantizeType, target: QuantizeType | undefined): string => {
  const block = tensorTypes[target ? wanted : 'Q8_0'].blockElements;
  const becomes = target ? `${target} instead of ${wanted}` : `kept as ${tensor.type}`;
  return `${becomes}, because rows of ${columnsOf(tensor)} weights are not a multiple of ${block}`;
};

/** Collects notes about tensors and groups the tensors that share a note. */
class Notes {
  readonly #names = new Map<string, string[]>();

  add(what: string, name: string): void {
    const names = this.#names.get(what);
    if (names) names.push(name);
    else this.#names.set(what, [name]);
  }

  sentences(): string[] {
    return [...this.#names].map(([what, names]) => `${few(names, ', ', 3)}: ${what}`);
  }
}

const nothingToQuantize = (file: ModelFile, wanted: QuantizeType, notes: Notes): ModelFileError => {
  const types = [...new Set([...file.tensors.values()].map(({ type }) => type))].join(', ');
  const reason = notes.sentences().join('; ') || `its tensors are ${types}`;
  return new ModelFileError(
    'nothing_to_quantize',
    `${file.name}: nothing to quantize to ${wanted.toLowerCase()}: ${reason}; load the model without quantizing it`,
  );
};
