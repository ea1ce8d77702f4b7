import { few } from '../../few.ts';
import { type FloatType, isFloatType } from '../float-bytes.ts';
import { ModelFileError, type TensorInfo, tensorTypes } from '../model-file.ts';
import { bytesOfRow, columnsOf, rowsOf } from '../rows.ts';
import type { Config } from './config.ts';
import { presentExperts } from './experts.ts';
import type { Family, Target } from './family.ts';
import {
  constantRows,
  floatRows,
  pairedRows,
  pairedVector,
  type ReadRows,
  storedRows,
} from './tensor-rows.ts';
import { turnedColumns, turnedExtent, turnedRows, type Turns } from './turned-rows.ts';
import type { LocatedTensor } from './weight-files.ts';

/** A tensor with its GGUF name, and a reader of its rows. */
export interface Presented {
  readonly info: TensorInfo;
  readonly read: ReadRows;
}

/** Buffers in old checkpoints that are computed, not trained. */
const computed = /\.(rotary_emb\.inv_freq|attention\.masked_bias|attention\.bias)$/;

/**
 * Converts every weight of a checkpoint to its GGUF name, shape and type.
 * @throws ModelFileError `unsupported_tensors`, `unsupported_type` or `bad_tensors`, naming the tensors. A tensor
 *   must not be dropped silently: the model would compute something else
 */
export const presentTensors = (
  stored: ReadonlyMap<string, LocatedTensor>,
  { family, config, name }: { family: Family; config: Config; name: string },
): Map<string, Presented> => {
  const tensors = new Map<string, Presented>();
  const unknown: string[] = [];
  const unreadable: string[] = [];
  const problems: string[] = [];
  const layers = config.number('num_hidden_layers', 'n_layer');
  const experts = presentExperts([...stored.values()], { family, config, layers });
  problems.push(...experts.problems);
  for (const presented of experts.tensors) tensors.set(presented.info.name, presented);
  for (const tensor of experts.rest) {
    if (isIgnored(tensor.name, family, config)) continue;
    const target = targetOf(tensor.name, family, layers);
    const known = target && tensors.get(target.name);
    if (!target) unknown.push(tensor.name);
    else if (!isFloatType(tensor.dtype)) unreadable.push(`'${tensor.name}' is ${tensor.dtype}`);
    else if (known) problems.push(`'${tensor.name}' maps to ${target.name}, as another tensor does`);
    else {
      const presented = present(tensor, tensor.dtype, target, config);
      if (typeof presented === 'string') problems.push(`'${tensor.name}' ${presented}`);
      else tensors.set(target.name, presented);
    }
  }
  refuseTensors('unsupported_tensors', name, unknown, {
    what: `unknown for the architecture ${family.architecture}; the model would be wrong without them`,
  });
  refuseTensors('unsupported_type', name, unreadable, { what: 'supported: F32, F16, BF16' });
  refuseTensors('bad_tensors', name, problems, { what: 'the checkpoint does not match its config.json' });
  for (const [vector, values] of family.vectors?.(config) ?? []) {
    const info = { name: vector, type: 'F32', shape: [values.length], offset: 0 } as const;
    tensors.set(vector, { info: { ...info, sizeBytes: values.byteLength }, read: constantRows(values) });
  }
  return tensors;
};

/** The number of token embeddings. The checkpoint is authoritative, because configurations may be wrong. */
export const embeddedTokens = (name: string, tensors: ReadonlyMap<string, Presented>): number => {
  const rows = tensors.get('token_embd.weight')?.info.shape[0];
  if (rows !== undefined) return rows;
  throw new ModelFileError(
    'bad_tensors',
    `${name}: no tensor holds the token embeddings; download the weights again`,
  );
};

/** Throws when the list of problems is not empty. */
export const refuseTensors = (
  code: string,
  name: string,
  found: readonly string[],
  { what }: { what: string },
): void => {
  if (found.length > 0) throw new ModelFileError(code, `${name}: tensors ${few(found, '; ')}: ${what}`);
};

export const isIgnored = (tensor: string, family: Family, config: Config): boolean =>
  computed.test(tensor) ||
  (family.ignored?.test(tensor) ?? false) ||
  // With tied embeddings the token embedding is the output matrix, even when the file also has an lm_head.
  (config.get('tie_word_embeddings') === true && /(^|\.)lm_head\.weight$/.test(tensor));

/** Finds the GGUF tensor of a checkpoint tensor, with layer and suffix in its name; undefined when unknown. */
export const targetOf = (tensor: string, family: Family, layers: number): Target | undefined => {
  const [, base = tensor, suffix] = /^(.+)\.(weight|bias|gamma|beta)$/.exec(tensor) ?? [];
  const names = suffix === undefined ? (family.bare ?? {}) : family.tensors;
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
const present = (
  found: LocatedTensor,
  stored: FloatType,
  { name, pairUp, plus = 0, each, float, taps, turns }: Target,
  config: Config,
): Presented | string => {
  const tensor = taps ? { ...found, shape: withoutMiddle(found.shape) } : found;
  const { shape } = tensor;
  const elements = shape.reduce((product, extent) => product * extent, 1);
  if (shape.length < 1 || shape.length > 2 || elements < 1) {
    return `has shape [${shape.join(', ')}], neither a vector nor a matrix`;
  }
  const isVector = shape.length === 1;
  const change = each ?? (plus === 0 ? undefined : (value: number) => value + plus);
  const type = isVector || float || change ? 'F32' : stored;
  const info = {
    name,
    type,
    shape,
    offset: tensor.offset,
    sizeBytes: elements * tensorTypes[type].blockBytes,
  };
  if (pairUp) {
    const heads = config.number(...pairUp);
    const rows = isVector ? elements : rowsOf(tensor);
    if (rows % (2 * heads) !== 0) return `has ${rows} rows, not a multiple of 2 * ${heads} heads`;
    const paired = { rowBytes: bytesOfRow(info), headRows: rows / heads };
    return {
      info,
      read: isVector ? pairedVector(tensor, stored, heads) : pairedRows(storedRows(tensor, stored), paired),
    };
  }
  const read = type === stored && !change ? storedRows(tensor, stored) : floatRows(tensor, stored, change);
  const turning = turns?.(config);
  return turning ? turned({ info, read }, turning) : { info, read };
};

/** Changes [channels, 1, taps] to [channels, taps]. Other shapes are unchanged; the caller rejects 3-D shapes. */
const withoutMiddle = (shape: readonly number[]): readonly number[] =>
  shape.length === 3 && shape[1] === 1 ? [shape[0]!, shape[2]!] : shape;

const turned = ({ info, read }: Presented, turns: Turns): Presented | string => {
  const { shape, type } = info;
  const byRows = turns.along === 'rows' && shape.length === 2;
  const extent = byRows ? rowsOf(info) : columnsOf(info);
  const wanted = turnedExtent(turns);
  if (extent !== wanted)
    return `has shape [${shape.join(', ')}], but the heads in config.json need ${wanted}`;
  if (byRows) return { info, read: turnedRows(read, turns, bytesOfRow(info)) };
  const row = { columns: extent, elementBytes: tensorTypes[type].blockBytes };
  return { info, read: turnedColumns(read, turns, row) };
};
