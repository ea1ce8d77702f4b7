import { type HeaderReader, formatCount } from './header-reader.ts';
import type { Metadata, MetadataArray, MetadataScalar } from './model-file.ts';

/** GGUF type numbers of metadata values. */
const stringType = 8;
const arrayType = 9;
const booleanType = 7;
/** Real files have no nested arrays. Deeper nesting, or more arrays in one file, means that the file is corrupt. */
const maxArrayDepth = 3;
const maxArrays = 1 << 16;
/** Far more than any model has. An entry takes many times its file size in memory. */
const maxEntries = 1 << 20;
/** An empty string is its length field; an empty array is its type and length fields. */
const minStringBytes = 8;
const minArrayBytes = 12;
/** Key length, a one-byte key, the type, a one-byte value. */
const minEntryBytes = 14;

interface NumberType {
  readonly bytes: number;
  readonly read: (reader: HeaderReader) => number | bigint | boolean;
  /** Creates a typed array over `buffer`. Absent for booleans, which have no typed array. */
  readonly array?: (buffer: ArrayBuffer) => MetadataArray;
}

/** Converts a 64-bit value to a number where that is exact. */
const toNumberIfSafe = (value: bigint): number | bigint => {
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : value;
};

// Typed arrays read the file's bytes directly: both are little-endian on every host that WebGPU runs on.
const numberTypes: ReadonlyMap<number, NumberType> = new Map<number, NumberType>([
  [0, { bytes: 1, read: (reader) => reader.u8(), array: (buffer) => new Uint8Array(buffer) }],
  [1, { bytes: 1, read: (reader) => reader.i8(), array: (buffer) => new Int8Array(buffer) }],
  [2, { bytes: 2, read: (reader) => reader.u16(), array: (buffer) => new Uint16Array(buffer) }],
  [3, { bytes: 2, read: (reader) => reader.i16(), array: (buffer) => new Int16Array(buffer) }],
  [4, { bytes: 4, read: (reader) => reader.u32(), array: (buffer) => new Uint32Array(buffer) }],
  [5, { bytes: 4, read: (reader) => reader.i32(), array: (buffer) => new Int32Array(buffer) }],
  [6, { bytes: 4, read: (reader) => reader.f32(), array: (buffer) => new Float32Array(buffer) }],
  [booleanType, { bytes: 1, read: (reader) => reader.u8() !== 0 }],
  [
    10,
    {
      bytes: 8,
      read: (reader) => toNumberIfSafe(reader.u64()),
      array: (buffer) => new BigUint64Array(buffer),
    },
  ],
  [
    11,
    {
      bytes: 8,
      read: (reader) => toNumberIfSafe(reader.i64()),
      array: (buffer) => new BigInt64Array(buffer),
    },
  ],
  [12, { bytes: 8, read: (reader) => reader.f64(), array: (buffer) => new Float64Array(buffer) }],
]);

const createUnknownTypeError = (reader: HeaderReader, type: number, label: string): Error =>
  reader.createError(
    'corrupt',
    `${label} has the unknown value type ${type}; the file is corrupt or newer than this reader`,
  );

/**
 * Reads the key-value section, which has `count` entries.
 * @throws ModelFileError `corrupt` or `truncated`
 */
export const readMetadata = async (reader: HeaderReader, count: number): Promise<Metadata> => {
  reader.assertFits(count * minEntryBytes, `the list of ${formatCount(count)} metadata entries`);
  if (count > maxEntries) {
    throw reader.createError(
      'corrupt',
      `${count} metadata entries are too many (at most ${maxEntries}); the file is corrupt`,
    );
  }
  const budget: ArrayBudget = { arrays: maxArrays };
  const metadata = new Map<string, MetadataScalar | MetadataArray>();
  for (let index = 0; index < count; index++) {
    const key = await reader.readString(`the key of metadata entry ${index}`);
    const label = `metadata '${key}'`;
    if (key === '')
      throw reader.createError('corrupt', `metadata entry ${index} has no key; the file is corrupt`);
    if (metadata.has(key)) throw reader.createError('corrupt', `${label} occurs twice; the file is corrupt`);
    await reader.ensure(4, label);
    metadata.set(key, await readValue(reader, reader.u32(), label, budget));
  }
  return metadata;
};

/** How many nested arrays the rest of the file may have. */
interface ArrayBudget {
  arrays: number;
}

const readValue = async (
  reader: HeaderReader,
  type: number,
  label: string,
  budget: ArrayBudget,
): Promise<MetadataScalar | MetadataArray> => {
  if (type === stringType) return reader.readString(label);
  if (type === arrayType) return readArray(reader, label, { depth: 1, budget });
  const scalar = numberTypes.get(type);
  if (!scalar) throw createUnknownTypeError(reader, type, label);
  await reader.ensure(scalar.bytes, label);
  return scalar.read(reader);
};

const readArray = async (
  reader: HeaderReader,
  label: string,
  { depth, budget }: { depth: number; budget: ArrayBudget },
): Promise<MetadataArray> => {
  if (depth > maxArrayDepth) {
    throw reader.createError(
      'corrupt',
      `${label} nests arrays deeper than ${maxArrayDepth}; the file is corrupt`,
    );
  }
  await reader.ensure(12, label);
  const type = reader.u32();
  const count = reader.u64Length();
  const arrayLabel = `${label} (an array of ${formatCount(count)})`;
  if (type === stringType) return readStrings(reader, count, arrayLabel);
  if (type === arrayType) {
    reader.assertFits(count * minArrayBytes, arrayLabel);
    budget.arrays -= count;
    if (budget.arrays < 0) {
      throw reader.createError(
        'corrupt',
        `${arrayLabel} makes more than ${maxArrays} nested arrays; the file is corrupt`,
      );
    }
    const arrays: MetadataArray[] = [];
    for (let index = 0; index < count; index++) {
      arrays.push(await readArray(reader, label, { depth: depth + 1, budget }));
    }
    return arrays;
  }
  const element = numberTypes.get(type);
  if (!element) throw createUnknownTypeError(reader, type, `${label} (an array)`);
  reader.assertFits(count * element.bytes, arrayLabel);
  const bytes = new Uint8Array(count * element.bytes);
  await reader.copyTo(bytes, arrayLabel);
  return element.array ? element.array(bytes.buffer) : Array.from(bytes, (byte) => byte !== 0);
};

const readStrings = async (reader: HeaderReader, count: number, label: string): Promise<string[]> => {
  reader.assertFits(count * minStringBytes, label);
  const strings: string[] = [];
  for (let index = 0; index < count; index++) {
    strings.push(reader.readBufferedString() ?? (await reader.readString(label)));
  }
  return strings;
};
