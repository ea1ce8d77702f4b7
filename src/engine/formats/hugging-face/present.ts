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

/** A tensor under GGUF's name, and how its rows are come by. */
export interface Presented {
  readonly info: TensorInfo;
  readonly read: ReadRows;
}

/** Buffers of old checkpoints that are computed, not learnt. */
const computed = /\.(rotary_emb\.inv_freq|attention\.masked_bias|attention\.bias)$/;

/**
 * Every weight of a checkpoint under GGUF's name and as GGUF would hold it.
 * @throws ModelFileError `unsupported_tensors`, `unsupported_type` or `bad_tensors`, naming the tensors: one that is
 *   left out silently would be another model
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
    else if (known) problems.push(`'${tensor.name}' is a second ${target.name}`);
    else {
      const presented = present(tensor, tensor.dtype, target, config);
      if (typeof presented === 'string') problems.push(`'${tensor.name}' ${presented}`);
      else tensors.set(target.name, presented);
    }
  }
  refuseTensors('unsupported_tensors', name, unknown, {
    what: `no part of ${family.architecture}, and leaving them out would make another model`,
  });
  refuseTensors('unsupported_type', name, unreadable, { what: 'supported: F32, F16, BF16' });
  refuseTensors('bad_tensors', name, problems, { what: 'the checkpoint does not fit its config.json' });
  for (const [vector, values] of family.vectors?.(config) ?? []) {
    const info = { name: vector, type: 'F32', shape: [values.length], offset: 0 } as const;
    tensors.set(vector, { info: { ...info, sizeBytes: values.byteLength }, read: constantRows(values) });
  }
  return tensors;
};

/** How many tokens there are: what a configuration says of that may be anything. */
export const embeddedTokens = (name: string, tensors: ReadonlyMap<string, Presented>): number => {
  const rows = tensors.get('token_embd.weight')?.info.shape[0];
  if (rows !== undefined) return rows;
  throw new ModelFileError(
    'bad_tensors',
    `${name}: no tensor holds the embeddings of tokens; download the weights again`,
  );
};

/** Refuses a model for what is wrong with its tensors, where something is. */
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
  // Then the embedding is the head, whatever the file holds besides.
  (config.get('tie_word_embeddings') === true && /(^|\.)lm_head\.weight$/.test(tensor));

/** The target with its name complete: layer filled in, suffix appended. */
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
    // BERT's first checkpoints call the two halves of a norm gamma and beta.
    const kind = suffix === 'gamma' ? 'weight' : suffix === 'beta' ? 'bias' : suffix;
    const name = target.name.replace('#', layer ?? '');
    return { ...target, name: kind === undefined ? name : `${name}.${kind}` };
  }
  return undefined;
};

/** What is wrong with it, in words, if it cannot be presented. */
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
    if (rows % (2 * heads) !== 0) return `has ${rows} rows, which are no pairs in ${heads} heads`;
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

/** [channels, 1, taps] as [channels, taps]; any other shape stays, and is refused by its length. */
const withoutMiddle = (shape: readonly number[]): readonly number[] =>
  shape.length === 3 && shape[1] === 1 ? [shape[0]!, shape[2]!] : shape;

const turned = ({ info, read }: Presented, turns: Turns): Presented | string => {
  const { shape, type } = info;
  const byRows = turns.along === 'rows' && shape.length === 2;
  const extent = byRows ? rowsOf(info) : columnsOf(info);
  const wanted = turnedExtent(turns);
  if (extent !== wanted)
    return `has shape [${shape.join(', ')}], where the heads of config.json take ${wanted}`;
  if (byRows) return { info, read: turnedRows(read, turns, bytesOfRow(info)) };
  const row = { columns: extent, elementBytes: tensorTypes[type].blockBytes };
  return { info, read: turnedColumns(read, turns, row) };
};
