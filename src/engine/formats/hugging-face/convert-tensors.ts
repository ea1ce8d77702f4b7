import { summarizeList } from '../../../util/summarize-list.ts';
import { type FloatType, isFloatType } from '../float-bytes.ts';
import { ModelFileError, type TensorInfo, tensorTypes } from '../model-file.ts';
import { bytesOfRow, columnsOf, rowsOf } from '../rows.ts';
import type { ModelConfig } from './config.ts';
import { convertExperts } from './experts.ts';
import type { ModelFamily, TargetTensor } from './family.ts';
import {
  readConstantRows,
  readFloatRows,
  readInterleavedRows,
  readInterleavedVector,
  type RowReader,
  readStoredRows,
} from './tensor-rows.ts';
import { readReorderedColumns, reorderedExtent, readReorderedRows, type HeadOrder } from './head-order.ts';
import type { LocatedTensor } from './weight-files.ts';

/** A tensor with its GGUF name, and a reader of its rows. */
export interface ConvertedTensor {
  readonly info: TensorInfo;
  readonly read: RowReader;
}

/** Buffers in old checkpoints that are computed, not trained. */
const computedBufferPattern = /\.(rotary_emb\.inv_freq|attention\.masked_bias|attention\.bias)$/;

/**
 * Converts every weight of a checkpoint to its GGUF name, shape and type.
 * @throws ModelFileError `unsupported_tensors`, `unsupported_type` or `bad_tensors`, naming the tensors. A tensor
 *   must not be dropped silently: the model would compute something else
 */
export const convertTensors = (
  stored: ReadonlyMap<string, LocatedTensor>,
  { family, config, name }: { family: ModelFamily; config: ModelConfig; name: string },
): Map<string, ConvertedTensor> => {
  const tensors = new Map<string, ConvertedTensor>();
  const unknown: string[] = [];
  const unreadable: string[] = [];
  const problems: string[] = [];
  const layers = config.number('num_hidden_layers', 'n_layer');
  const experts = convertExperts([...stored.values()], { family, config, layers });
  problems.push(...experts.problems);
  for (const converted of experts.tensors) tensors.set(converted.info.name, converted);
  for (const tensor of experts.rest) {
    if (isIgnored(tensor.name, family, config)) continue;
    const target = findTarget(tensor.name, family, layers);
    const existing = target && tensors.get(target.name);
    if (!target) unknown.push(tensor.name);
    else if (!isFloatType(tensor.dtype)) unreadable.push(`'${tensor.name}' is ${tensor.dtype}`);
    else if (existing) problems.push(`'${tensor.name}' maps to ${target.name}, as another tensor does`);
    else {
      const converted = convertTensor(tensor, tensor.dtype, target, config);
      if (typeof converted === 'string') problems.push(`'${tensor.name}' ${converted}`);
      else tensors.set(target.name, converted);
    }
  }
  rejectTensors('unsupported_tensors', name, unknown, {
    reason: `unknown for the architecture ${family.architecture}; the model would be wrong without them`,
  });
  rejectTensors('unsupported_type', name, unreadable, { reason: 'supported: F32, F16, BF16' });
  rejectTensors('bad_tensors', name, problems, { reason: 'the checkpoint does not match its config.json' });
  for (const [vector, values] of family.computeVectors?.(config) ?? []) {
    const info = { name: vector, type: 'F32', shape: [values.length], offset: 0 } as const;
    tensors.set(vector, { info: { ...info, sizeBytes: values.byteLength }, read: readConstantRows(values) });
  }
  return tensors;
};

/** The number of token embeddings. The checkpoint is authoritative, because configurations may be wrong. */
export const countEmbeddingRows = (name: string, tensors: ReadonlyMap<string, ConvertedTensor>): number => {
  const rows = tensors.get('token_embd.weight')?.info.shape[0];
  if (rows !== undefined) return rows;
  throw new ModelFileError(
    'bad_tensors',
    `${name}: no tensor holds the token embeddings; download the weights again`,
  );
};

/** Throws when the list of problems is not empty. */
export const rejectTensors = (
  code: string,
  name: string,
  found: readonly string[],
  { reason }: { reason: string },
): void => {
  if (found.length > 0)
    throw new ModelFileError(code, `${name}: tensors ${summarizeList(found, '; ')}: ${reason}`);
};

export const isIgnored = (tensor: string, family: ModelFamily, config: ModelConfig): boolean =>
  computedBufferPattern.test(tensor) ||
  (family.ignoredTensors?.test(tensor) ?? false) ||
  // With tied embeddings the token embedding is the output matrix, even when the file also has an lm_head.
  (config.get('tie_word_embeddings') === true && /(^|\.)lm_head\.weight$/.test(tensor));

/** Finds the GGUF tensor of a checkpoint tensor, with layer and suffix in its name; undefined when unknown. */
export const findTarget = (tensor: string, family: ModelFamily, layers: number): TargetTensor | undefined => {
  const [, base = tensor, suffix] = /^(.+)\.(weight|bias|gamma|beta)$/.exec(tensor) ?? [];
  const names = suffix === undefined ? (family.unsuffixedTensors ?? {}) : family.tensors;
  for (const prefix of [...family.prefixes, '']) {
    if (!base.startsWith(prefix)) continue;
    const [, layer] = /(?:^|\.)(\d+)\./.exec(base.slice(prefix.length)) ?? [];
    if (layer !== undefined && Number(layer) >= layers) return undefined;
    const key = base.slice(prefix.length).replace(/(^|\.)\d+\./, '$1#.');
    const found = Object.hasOwn(names, key) ? names[key] : undefined;
    if (found === undefined) continue;
    const target = typeof found === 'string' ? { name: found } : found;
    // The first BERT checkpoints call the weight and bias of a norm gamma and beta.
    const kind = suffix === 'gamma' ? 'weight' : suffix === 'beta' ? 'bias' : suffix;
    const name = target.name.replace('#', layer ?? '');
    return { ...target, name: kind === undefined ? name : `${name}.${kind}` };
  }
  return undefined;
};

/** Converts one tensor. Returns a text that describes the problem when it cannot be converted. */
const convertTensor = (
  found: LocatedTensor,
  stored: FloatType,
  {
    name,
    interleaveHeads,
    addend = 0,
    mapValue,
    asFloat,
    isDepthwiseConv,
    reorderHeads,
    skippedRows,
  }: TargetTensor,
  config: ModelConfig,
): ConvertedTensor | string => {
  const tensor = isDepthwiseConv ? { ...found, shape: dropMiddleDimension(found.shape) } : found;
  const { shape } = tensor;
  const elements = shape.reduce((product, extent) => product * extent, 1);
  if (shape.length < 1 || shape.length > 2 || elements < 1) {
    return `has shape [${shape.join(', ')}], neither a vector nor a matrix`;
  }
  const isVector = shape.length === 1;
  const transform = mapValue ?? (addend === 0 ? undefined : (value: number) => value + addend);
  const type = isVector || asFloat || transform ? 'F32' : stored;
  const info = {
    name,
    type,
    shape,
    offset: tensor.offset,
    sizeBytes: elements * tensorTypes[type].blockBytes,
  };
  if (interleaveHeads) {
    const heads = config.number(...interleaveHeads);
    const rows = isVector ? elements : rowsOf(tensor);
    if (rows % (2 * heads) !== 0) return `has ${rows} rows, not a multiple of 2 * ${heads} heads`;
    const interleaving = { rowBytes: bytesOfRow(info), headRows: rows / heads };
    return {
      info,
      read: isVector
        ? readInterleavedVector(tensor, stored, heads)
        : readInterleavedRows(readStoredRows(tensor, stored), interleaving),
    };
  }
  const read =
    type === stored && !transform ? readStoredRows(tensor, stored) : readFloatRows(tensor, stored, transform);
  if (skippedRows) return skipRows({ info, read }, skippedRows(config));
  const headOrder = reorderHeads?.(config);
  return headOrder ? convertHeadOrder({ info, read }, headOrder) : { info, read };
};

/** Leaves out rows at the start of a matrix. */
const skipRows = ({ info, read }: ConvertedTensor, skipped: number): ConvertedTensor | string => {
  const rows = rowsOf(info) - skipped;
  if (info.shape.length !== 2 || rows < 1)
    return `has shape [${info.shape.join(', ')}], but the first ${skipped} rows are not used`;
  const shape = [rows, columnsOf(info)];
  return {
    info: { ...info, shape, sizeBytes: rows * bytesOfRow(info) },
    read: (firstRow, count, into) => read(firstRow + skipped, count, into),
  };
};

/** Changes [channels, 1, taps] to [channels, taps]. Other shapes are unchanged; the caller rejects 3-D shapes. */
const dropMiddleDimension = (shape: readonly number[]): readonly number[] =>
  shape.length === 3 && shape[1] === 1 ? [shape[0]!, shape[2]!] : shape;

const convertHeadOrder = (
  { info, read }: ConvertedTensor,
  reorderHeads: HeadOrder,
): ConvertedTensor | string => {
  const { shape, type } = info;
  const byRows = reorderHeads.axis === 'rows' && shape.length === 2;
  const extent = byRows ? rowsOf(info) : columnsOf(info);
  const wanted = reorderedExtent(reorderHeads);
  if (extent !== wanted)
    return `has shape [${shape.join(', ')}], but the heads in config.json need ${wanted}`;
  if (byRows) return { info, read: readReorderedRows(read, reorderHeads, bytesOfRow(info)) };
  const row = { columns: extent, elementBytes: tensorTypes[type].blockBytes };
  return { info, read: readReorderedColumns(read, reorderHeads, row) };
};
