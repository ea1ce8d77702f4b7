import { isRecord, type Json } from '../../util/json.ts';
import type { ByteSource, ModelFiles } from '../platform.ts';
import { ModelFileError } from './model-file.ts';
import { describeForeignFile } from './foreign-file.ts';
import { exceedsMaxDepth } from './json-scan.ts';

/** The largest JSON files are tokenizers of 260,000 tokens (35 MB). A byte of JSON may take 20 bytes in memory. */
const maxFileBytes = 64 << 20;

/** Reads a small text file of a model's folder; undefined when it does not exist. */
export const readTextFile = async (files: ModelFiles, name: string): Promise<string | undefined> => {
  const bytes = await readBytes(files, name);
  return bytes && new TextDecoder().decode(bytes);
};

const readBytes = async (files: ModelFiles, name: string): Promise<Uint8Array | undefined> => {
  const source = await files.open(name);
  if (!source) return undefined;
  try {
    return await readAllBytes(source);
  } finally {
    await source.close();
  }
};

const readAllBytes = async (source: ByteSource): Promise<Uint8Array> => {
  if (source.sizeBytes <= maxFileBytes) return source.read(0, source.sizeBytes);
  throw new ModelFileError(
    'corrupt',
    `${source.name}: ${source.sizeBytes} bytes exceed the limit of ${maxFileBytes} bytes for such a file; download it again`,
  );
};

/**
 * Reads a JSON file of a model's folder; undefined when it does not exist.
 * @throws ModelFileError `corrupt`
 */
export const readJsonFile = async (files: ModelFiles, name: string): Promise<unknown> => {
  const bytes = await readBytes(files, name);
  if (bytes === undefined) return undefined;
  if (exceedsMaxDepth(bytes)) {
    throw new ModelFileError(
      'corrupt',
      `${files.name}: ${name} nests brackets too deeply; the file is corrupt`,
    );
  }
  try {
    return JSON.parse(new TextDecoder().decode(bytes)) as unknown;
  } catch (error) {
    const found = describeForeignFile(bytes.subarray(0, 64));
    const reason = /^(JSON|something else)/.test(found) ? (error as Error).message : `it is ${found}`;
    throw new ModelFileError('corrupt', `${files.name}: ${name} is not JSON: ${reason}`);
  }
};

/** Like `readJsonFile`, for files whose top-level value is an object. */
export const readJsonObjectFile = async (files: ModelFiles, name: string): Promise<Json | undefined> => {
  const value = await readJsonFile(files, name);
  if (value === undefined || isRecord(value)) return value;
  throw new ModelFileError('corrupt', `${files.name}: ${name} must hold a JSON object`);
};
