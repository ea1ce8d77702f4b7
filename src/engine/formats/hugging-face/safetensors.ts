import { isRecord } from '../../../util/json.ts';
import type { ByteSource } from '../../platform.ts';
import { ModelFileError } from '../model-file.ts';
import { describeForeignFile } from '../foreign-file.ts';
import { exceedsMaxDepth, topLevelKeys } from '../json-scan.ts';

/** A tensor in a safetensors file. */
export interface StoredTensor {
  readonly name: string;
  /** The file's type name: 'F32', 'BF16', 'I64' ... */
  readonly dtype: string;
  /** Outermost first. */
  readonly shape: readonly number[];
  /** Absolute byte offset in the file. */
  readonly offset: number;
  readonly sizeBytes: number;
}

/** Size of the u64 header length at the start of the file. */
const lengthBytes = 8;
/** The format's limit of the header size. */
const maxHeaderBytes = 100_000_000;

const bitsPerElement: ReadonlyMap<string, number> = new Map([
  ['F64', 64],
  ['F32', 32],
  ['F16', 16],
  ['BF16', 16],
  ['I64', 64],
  ['I32', 32],
  ['I16', 16],
  ['I8', 8],
  ['U64', 64],
  ['U32', 32],
  ['U16', 16],
  ['U8', 8],
  ['BOOL', 8],
  ['C64', 64],
  ['F8_E4M3', 8],
  ['F8_E5M2', 8],
  ['F8_E8M0', 8],
  ['F6_E2M3', 6],
  ['F6_E3M2', 6],
  ['F4', 4],
]);

type CreateError = (code: 'corrupt' | 'truncated' | 'wrong_magic', message: string) => ModelFileError;

/**
 * Reads the tensor table of a safetensors file. Checks that the tensors cover the data section exactly, without gaps or
 * overlaps, and that each has the size that its dtype and shape require.
 * @throws ModelFileError `truncated`, `corrupt` or `wrong_magic`
 */
export const readSafetensors = async (source: ByteSource): Promise<Map<string, StoredTensor>> => {
  const createError: CreateError = (code, message) => new ModelFileError(code, `${source.name}: ${message}`);
  const header = await readHeader(source, createError);
  const dataStart = lengthBytes + header.bytes;
  const tensors = new Map<string, StoredTensor>();
  for (const [name, entry] of Object.entries(header.entries)) {
    if (name === '__metadata__') continue;
    tensors.set(name, parseTensor(name, entry, dataStart, createError));
  }
  assertTensorLayout([...tensors.values()], dataStart, source.sizeBytes, createError);
  return tensors;
};

const readHeader = async (
  source: ByteSource,
  createError: CreateError,
): Promise<{ bytes: number; entries: Record<string, unknown> }> => {
  const size = source.sizeBytes;
  if (size < lengthBytes) {
    throw createError(
      'truncated',
      `the file has ${size} bytes, fewer than a header needs; download it again`,
    );
  }
  const head = await source.read(0, Math.min(64, size));
  const bytes = Number(new DataView(head.buffer, head.byteOffset).getBigUint64(0, true));
  if (bytes > maxHeaderBytes || (head.length > lengthBytes && head[lengthBytes] !== 0x7b)) {
    const description = describeForeignFile(head);
    // The first bytes look like safetensors, so the header length is wrong.
    throw description.startsWith('a safetensors')
      ? createError(
          'corrupt',
          `the header length of ${bytes} bytes exceeds the limit of ${maxHeaderBytes} bytes; the file is corrupt`,
        )
      : createError('wrong_magic', `not a safetensors file: this is ${description}`);
  }
  if (lengthBytes + bytes > size) {
    throw createError(
      'truncated',
      `the file has ${size} bytes, but its header alone ends at ${lengthBytes + bytes}; download it again`,
    );
  }
  const json = await source.read(lengthBytes, bytes);
  if (exceedsMaxDepth(json)) {
    throw createError('corrupt', 'the header nests brackets too deeply; download the file again');
  }
  const text = new TextDecoder().decode(json);
  let entries: unknown;
  try {
    entries = JSON.parse(text);
  } catch (error) {
    throw createError(
      'corrupt',
      `the header is not JSON (${(error as Error).message}); download the file again`,
    );
  }
  if (!isRecord(entries)) {
    throw createError('corrupt', 'the header is not a JSON object; download the file again');
  }
  rejectDuplicateNames(text, createError);
  return { bytes, entries };
};

/** Rejects duplicate names, because `JSON.parse` silently keeps the last one. */
const rejectDuplicateNames = (header: string, createError: CreateError): void => {
  const seen = new Set<string>();
  for (const name of topLevelKeys(header)) {
    if (seen.has(name)) throw createError('corrupt', `tensor '${name}' occurs twice; the file is corrupt`);
    seen.add(name);
  }
};

const isExtent = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;
const areExtents = (value: unknown): value is number[] => Array.isArray(value) && value.every(isExtent);

const parseTensor = (
  name: string,
  entry: unknown,
  dataStart: number,
  createError: CreateError,
): StoredTensor => {
  const { dtype, shape, data_offsets: offsets } = (entry ?? {}) as Record<string, unknown>;
  const label = `tensor '${name}'`;
  const invalidValue = (key: string, expected: string, actual: unknown) =>
    createError(
      'corrupt',
      `${label} has ${key} ${JSON.stringify(actual)}, not ${expected}; the file is corrupt`,
    );
  if (typeof dtype !== 'string') throw invalidValue('dtype', 'a name', dtype);
  if (!areExtents(shape)) throw invalidValue('shape', 'an array of whole numbers', shape);
  if (!areExtents(offsets) || offsets.length !== 2)
    throw invalidValue('data_offsets', 'two offsets', offsets);
  const [begin = 0, end = 0] = offsets;
  if (end < begin) throw invalidValue('data_offsets', 'a range', offsets);
  const elements = shape.reduce((product, extent) => product * extent, 1);
  const bits = bitsPerElement.get(dtype);
  if (bits !== undefined && (elements * bits) / 8 !== end - begin) {
    throw createError(
      'corrupt',
      `${label} is ${dtype} [${shape.join(', ')}] and needs ${(elements * bits) / 8} bytes, but has ${end - begin}; the file is corrupt`,
    );
  }
  return { name, dtype, shape, offset: dataStart + begin, sizeBytes: end - begin };
};

const assertTensorLayout = (
  tensors: StoredTensor[],
  dataStart: number,
  fileBytes: number,
  createError: CreateError,
): void => {
  tensors.sort((a, b) => a.offset - b.offset || a.sizeBytes - b.sizeBytes);
  let end = dataStart;
  let previousLabel = 'the header';
  for (const { name, offset, sizeBytes } of tensors) {
    if (offset < end)
      throw createError('corrupt', `${previousLabel} and tensor '${name}' overlap; the file is corrupt`);
    if (offset > end) {
      const gap = `${offset - end} bytes between ${previousLabel} and tensor '${name}'`;
      throw createError('corrupt', `the ${gap} belong to no tensor; the file is corrupt`);
    }
    end = offset + sizeBytes;
    previousLabel = `tensor '${name}'`;
  }
  if (end > fileBytes) {
    throw createError(
      'truncated',
      `the file has ${fileBytes} bytes, but ${previousLabel} ends at ${end}; download it again`,
    );
  }
  if (end < fileBytes) {
    throw createError(
      'corrupt',
      `${fileBytes - end} bytes follow ${previousLabel}, which is the last; the file is corrupt`,
    );
  }
};
