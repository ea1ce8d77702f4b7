import { isRecord } from '../../../util/json.ts';
import { summarizeList } from '../../../util/summarize-list.ts';
import type { ByteSource, ModelFiles } from '../../platform.ts';
import { readJsonObjectFile } from '../json-file.ts';
import { type FloatType, isFloatType } from '../float-bytes.ts';
import { assertSafePath } from '../safe-path.ts';
import { ModelFileError, tensorTypes } from '../model-file.ts';
import { mapInBatches } from '../map-in-batches.ts';

/** An array in a shard, in row-major order. */
export interface MlcArray {
  readonly name: string;
  readonly type: FloatType | 'U32';
  readonly shape: readonly number[];
  readonly source: ByteSource;
  readonly offset: number;
}

/** File names of the shard list; they depend on the version of MLC. */
const cacheFileNames = ['tensor-cache.json', 'ndarray-cache.json'];

interface ParsedShard {
  readonly path: string;
  readonly sizeBytes: number;
  readonly arrays: readonly Omit<MlcArray, 'source'>[];
}

/** A shard as the shard list describes it. */
export interface ShardFile {
  readonly path: string;
  readonly sizeBytes: number;
  /** MD5 of the content as lower-case hex; undefined in very old folders. */
  readonly md5: string | undefined;
}

/**
 * Lists every array of the folder by name. Opens the shards and checks their sizes against the shard list.
 * @param opened receives every opened source, also when this throws; the caller closes them
 * @throws ModelFileError `not_found`, `truncated` or `corrupt`, naming every shard or array that is wrong
 */
export const readArrays = async (files: ModelFiles, opened: ByteSource[]): Promise<Map<string, MlcArray>> => {
  const { cacheFileName, shards } = await readCache(files);
  const problems: string[] = [];
  const parsed = shards.map((shard) => parseShard(shard, problems));
  const seen = new Set<string>();
  for (const { name } of parsed.flatMap((shard) => shard.arrays)) {
    if (seen.has(name)) problems.push(`'${name}' occurs twice`);
    seen.add(name);
  }
  if (problems.length > 0) {
    throw new ModelFileError(
      'corrupt',
      `${files.name}: ${cacheFileName}: ${summarizeList(problems, '; ')}; the file is corrupt, download it again`,
    );
  }
  const sources = await openShards(files, parsed, opened);
  return new Map(
    parsed.flatMap(({ path, arrays }) => {
      const source = sources.get(path);
      return source ? arrays.map((array) => [array.name, { ...array, source }] as const) : [];
    }),
  );
};

/** The shards in the folder's shard list. */
export const readShardFiles = async (files: ModelFiles): Promise<ShardFile[]> => {
  const { shards } = await readCache(files);
  return shards.map(({ dataPath, nbytes, md5sum }) => {
    const path = String(dataPath);
    assertSafePath(files.name, path);
    return {
      path,
      sizeBytes: Number(nbytes),
      md5: typeof md5sum === 'string' ? md5sum.toLowerCase() : undefined,
    };
  });
};

const readCache = async (
  files: ModelFiles,
): Promise<{ cacheFileName: string; shards: Readonly<Record<string, unknown>>[] }> => {
  for (const cacheFileName of cacheFileNames) {
    const found = await readJsonObjectFile(files, cacheFileName);
    if (!found) continue;
    const { records } = found;
    if (Array.isArray(records) && records.length > 0 && records.every(isRecord))
      return { cacheFileName, shards: records };
    throw new ModelFileError('corrupt', `${files.name}: ${cacheFileName} lists no shards; download it again`);
  }
  throw new ModelFileError(
    'not_found',
    `${files.name}: there is no file ${cacheFileNames.join(' or ')}, which lists the shards of an MLC model; download the rest`,
  );
};

const parseShard = (shard: Readonly<Record<string, unknown>>, problems: string[]): ParsedShard => {
  const { dataPath, nbytes, records } = shard;
  if (typeof dataPath !== 'string' || !isSize(nbytes) || !Array.isArray(records)) {
    problems.push(`a shard without path, size or records (${JSON.stringify(dataPath)})`);
    return { path: '', sizeBytes: 0, arrays: [] };
  }
  const arrays = records.flatMap((record: unknown) => {
    const array = parseArray(record, nbytes);
    if (typeof array === 'object') return [array];
    problems.push(`${dataPath}: ${array}`);
    return [];
  });
  return { path: dataPath, sizeBytes: nbytes, arrays };
};

/** Parses the description of one array. Returns a text that describes the problem when it is invalid. */
const parseArray = (record: unknown, shardBytes: number): Omit<MlcArray, 'source'> | string => {
  const { name, dtype, format, shape, nbytes, byteOffset } = isRecord(record) ? record : {};
  if (typeof name !== 'string') return 'an array without a name';
  if (!Array.isArray(shape) || !shape.every((extent) => isSize(extent) && extent > 0))
    return `'${name}' has no shape`;
  const type = parseType(dtype, format);
  if (type === undefined)
    return `'${name}' has the unknown type ${String(dtype)} in the format ${String(format)}`;
  const extents = shape as number[];
  const sizeBytes =
    extents.reduce((product, extent) => product * extent, 1) *
    (isFloatType(type) ? tensorTypes[type].blockBytes : 4);
  if (nbytes !== sizeBytes) return `'${name}' has ${String(nbytes)} bytes, but its shape needs ${sizeBytes}`;
  if (!isSize(byteOffset) || byteOffset + sizeBytes > shardBytes)
    return `'${name}' at offset ${String(byteOffset)} does not fit into its shard of ${shardBytes} bytes`;
  return { name, type, shape: extents, offset: byteOffset };
};

const isSize = (value: unknown): value is number =>
  typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;

/** The array type. `f32-to-bf16` means that f32 values are stored as BF16; the format of other types has no effect. */
const parseType = (dtype: unknown, format: unknown): MlcArray['type'] | undefined => {
  switch (dtype) {
    case 'uint32':
      return 'U32';
    case 'float16':
      return 'F16';
    case 'bfloat16':
      return 'BF16';
    case 'float32':
      return format === 'f32-to-bf16' ? 'BF16' : 'F32';
    default:
      return undefined;
  }
};

const openShards = async (
  files: ModelFiles,
  shards: readonly ParsedShard[],
  opened: ByteSource[],
): Promise<Map<string, ByteSource>> => {
  for (const { path } of shards) assertSafePath(files.name, path);
  const sources = new Map<string, ByteSource>();
  const missing: string[] = [];
  const wrongSizes: string[] = [];
  await mapInBatches(shards, async ({ path, sizeBytes }) => {
    const source = await files.open(path);
    if (source) opened.push(source);
    if (!source) missing.push(path);
    else if (source.sizeBytes !== sizeBytes)
      wrongSizes.push(`${path} has ${source.sizeBytes} bytes, expected ${sizeBytes}`);
    else sources.set(path, source);
  });
  if (missing.length > 0) {
    throw new ModelFileError(
      'not_found',
      `${files.name}: ${missing.length} of ${shards.length} shards are missing: ${summarizeList(missing)}; download the rest`,
    );
  }
  if (wrongSizes.length > 0)
    throw new ModelFileError(
      'truncated',
      `${files.name}: ${summarizeList(wrongSizes, '; ')}; download them again`,
    );
  return sources;
};
