import { isRecord } from '../../../util/json.ts';
import { summarizeList } from '../../../util/summarize-list.ts';
import type { ByteSource, ModelFiles } from '../../platform.ts';
import { assertSafePath } from '../safe-path.ts';
import { ModelFileError } from '../model-file.ts';
import { mapInBatches } from '../map-in-batches.ts';
import { readJsonObjectFile } from '../json-file.ts';
import { readSafetensors, type StoredTensor } from './safetensors.ts';

/** A tensor and the file that holds it. */
export interface LocatedTensor extends StoredTensor {
  readonly source: ByteSource;
}

const singleFileName = 'model.safetensors';
const indexFileName = 'model.safetensors.index.json';

/**
 * Reads the tensor tables of a folder's weights: one safetensors file, or the shards that its index lists, checked
 * against the index.
 * @param opened receives every opened source, also when this throws; the caller closes them
 * @throws ModelFileError `not_found`, `truncated`, `corrupt`
 */
export const readWeightFiles = async (
  files: ModelFiles,
  opened: ByteSource[],
): Promise<Map<string, LocatedTensor>> => {
  const shards = await readIndex(files);
  const entryFile = files.entry?.endsWith('.safetensors') ? files.entry : undefined;
  if (entryFile !== undefined && !shards?.has(entryFile)) {
    return readWeightFile(files, entryFile, opened);
  }
  if (entryFile === undefined) {
    const source = await files.open(singleFileName);
    if (source) {
      opened.push(source);
      return readTensors(source);
    }
  }
  if (!shards) throw createNoWeightsError(files, await files.list());
  return readShards(files, shards, opened);
};

/** Reads the tensor table of one required file. */
export const readWeightFile = async (
  files: ModelFiles,
  name: string,
  opened: ByteSource[],
): Promise<Map<string, LocatedTensor>> => {
  const source = await files.open(name);
  if (!source) throw new ModelFileError('not_found', `${files.name}: there is no file '${name}'`);
  opened.push(source);
  return readTensors(source);
};

const readTensors = async (source: ByteSource): Promise<Map<string, LocatedTensor>> => {
  const tensors = await readSafetensors(source);
  return new Map([...tensors].map(([name, tensor]) => [name, { ...tensor, source }]));
};

/** Tensor names by the shard that holds them; undefined when there is no index. */
const readIndex = async (files: ModelFiles): Promise<Map<string, string[]> | undefined> => {
  const fileTensors = await readJsonObjectFile(files, indexFileName);
  if (!fileTensors) return undefined;
  const map = fileTensors.weight_map;
  if (!isRecord(map))
    throw new ModelFileError('corrupt', `${files.name}: ${indexFileName} has no weight_map`);
  const shards = new Map<string, string[]>();
  for (const [tensor, shard] of Object.entries(map)) {
    if (typeof shard !== 'string') {
      throw new ModelFileError(
        'corrupt',
        `${files.name}: ${indexFileName} names no file for tensor '${tensor}'`,
      );
    }
    assertSafePath(files.name, shard);
    const tensors = shards.get(shard);
    if (tensors) tensors.push(tensor);
    else shards.set(shard, [tensor]);
  }
  if (shards.size === 0)
    throw new ModelFileError('corrupt', `${files.name}: ${indexFileName} names no tensors`);
  return shards;
};

const readShards = async (
  files: ModelFiles,
  shards: ReadonlyMap<string, readonly string[]>,
  opened: ByteSource[],
): Promise<Map<string, LocatedTensor>> => {
  const sources = await mapInBatches([...shards.keys()], async (shard) => {
    const source = await files.open(shard);
    if (source) opened.push(source);
    return { shard, source };
  });
  const missing = sources.flatMap(({ shard, source }) => (source ? [] : [shard]));
  if (missing.length > 0) {
    throw new ModelFileError(
      'not_found',
      `${files.name}: ${missing.length} of ${shards.size} shards are missing: ${summarizeList(missing)}; download the rest`,
    );
  }
  const tensors = new Map<string, LocatedTensor>();
  const problems: string[] = [];
  const located = await mapInBatches(sources, async ({ shard, source }) => ({
    shard,
    fileTensors: source ? await readTensors(source) : new Map<string, LocatedTensor>(),
  }));
  for (const { shard, fileTensors } of located) {
    const expected = new Set(shards.get(shard));
    for (const name of expected) if (!fileTensors.has(name)) problems.push(`'${name}' is not in ${shard}`);
    for (const [name, tensor] of fileTensors) {
      if (expected.has(name)) tensors.set(name, tensor);
      else problems.push(`'${name}' is in ${shard} but not in the index`);
    }
  }
  if (problems.length === 0) return tensors;
  throw new ModelFileError(
    'corrupt',
    `${files.name}: ${indexFileName} does not match its shards: tensor ${summarizeList(problems)}; ` +
      'download all files again, from one version',
  );
};

const createNoWeightsError = (files: ModelFiles, names: readonly string[] = []): ModelFileError => {
  const others = names.filter((name) => /\.(bin|pt|pth|ckpt|h5|msgpack|safetensors)$/.test(name));
  const fileTensors = others.length > 0 ? `; the folder has ${others.slice(0, 5).join(', ')}` : '';
  return new ModelFileError(
    'not_found',
    `${files.name}: no weights: neither ${singleFileName} nor ${indexFileName}${fileTensors}; download the model as safetensors`,
  );
};
