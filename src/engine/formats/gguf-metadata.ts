import { type HeaderReader, shown } from './header-reader.ts';
import type { Metadata, MetadataArray, MetadataScalar } from './model-file.ts';

/** GGUF type numbers of metadata values. */
const stringType = 8;
const arrayType = 9;
const booleanType = 7;
/** Real files have no nested arrays. Deeper nesting, or more arrays in one file, means that the file is corrupt. */
const deepestArray = 3;
const mostArrays = 1 << 16;
/** Far more than any model has. An entry takes many times its file size in memory. */
const mostEntries = 1 << 20;
/** An empty string is its length field; an empty array is its type and length fields. */
const leastStringBytes = 8;
const leastArrayBytes = 12;
/** Key length, a one-byte key, the type, a one-byte value. */
const leastEntryBytes = 14;

interface NumberType {
  readonly bytes: number;
  readonly read: (reader: HeaderReader) => number | bigint | boolean;
  /** Creates a typed array over `buffer`. Absent for booleans, which have no typed array. */
  readonly array?: (buffer: ArrayBuffer) => MetadataArray;
}

/** Converts a 64-bit value to a number where that is exact. */
const narrow = (value: bigint): number | bigint => {
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
  [10, { bytes: 8, read: (reader) => narrow(reader.u64()), array: (buffer) => new BigUint64Array(buffer) }],
  [11, { bytes: 8, read: (reader) => narrow(reader.i64()), array: (buffer) => new BigInt64Array(buffer) }],
  [12, { bytes: 8, read: (reader) => reader.f64(), array: (buffer) => new Float64Array(buffer) }],
]);

const unknownType = (reader: HeaderReader, type: number, what: string): Error =>
  reader.fail(
    'corrupt',
    `${what} has the unknown value type ${type}; the file is corrupt or newer than this reader`,
  );

/**
 * Reads the key-value section, which has `count` entries.
 * @throws ModelFileError `corrupt` or `truncated`
 */
export const readMetadata = async (reader: HeaderReader, count: number): Promise<Metadata> => {
  reader.expect(count * leastEntryBytes, `the list of ${shown(count)} metadata entries`);
  if (count > mostEntries) {
    throw reader.fail(
      'corrupt',
      `${count} metadata entries are too many (at most ${mostEntries}); the file is corrupt`,
    );
  }
  const budget: Budget = { arrays: mostArrays };
  const metadata = new Map<string, MetadataScalar | MetadataArray>();
  for (let index = 0; index < count; index++) {
    const key = await reader.text(`the key of metadata entry ${index}`);
    const what = `metadata '${key}'`;
    if (key === '') throw reader.fail('corrupt', `metadata entry ${index} has no key; the file is corrupt`);
    if (metadata.has(key)) throw reader.fail('corrupt', `${what} occurs twice; the file is corrupt`);
    await reader.ensure(4, what);
    metadata.set(key, await readValue(reader, reader.u32(), what, budget));
  }
  return metadata;
};

/** How many nested arrays the rest of the file may have. */
interface Budget {
  arrays: number;
}

const readValue = async (
  reader: HeaderReader,
  type: number,
  what: string,
  budget: Budget,
): Promise<MetadataScalar | MetadataArray> => {
  if (type === stringType) return reader.text(what);
  if (type === arrayType) return readArray(reader, what, { depth: 1, budget });
  const scalar = numberTypes.get(type);
  if (!scalar) throw unknownType(reader, type, what);
  await reader.ensure(scalar.bytes, what);
  return scalar.read(reader);
};

const readArray = async (
  reader: HeaderReader,
  what: string,
  { depth, budget }: { depth: number; budget: Budget },
): Promise<MetadataArray> => {
  if (depth > deepestArray) {
    throw reader.fail('corrupt', `${what} nests arrays deeper than ${deepestArray}; the file is corrupt`);
  }
  await reader.ensure(12, what);
  const type = reader.u32();
  const count = reader.length();
  const where = `${what} (an array of ${shown(count)})`;
  if (type === stringType) return readTexts(reader, count, where);
  if (type === arrayType) {
    reader.expect(count * leastArrayBytes, where);
    budget.arrays -= count;
    if (budget.arrays < 0) {
      throw reader.fail(
        'corrupt',
        `${where} makes more than ${mostArrays} nested arrays; the file is corrupt`,
      );
    }
    const arrays: MetadataArray[] = [];
    for (let index = 0; index < count; index++) {
      arrays.push(await readArray(reader, what, { depth: depth + 1, budget }));
    }
    return arrays;
  }
  const element = numberTypes.get(type);
  if (!element) throw unknownType(reader, type, `${what} (an array)`);
  reader.expect(count * element.bytes, where);
  const bytes = new Uint8Array(count * element.bytes);
  await reader.copyTo(bytes, where);
  return element.array ? element.array(bytes.buffer) : Array.from(bytes, (byte) => byte !== 0);
};

const readTexts = async (reader: HeaderReader, count: number, what: string): Promise<string[]> => {
  reader.expect(count * leastStringBytes, what);
  const texts: string[] = [];
  for (let index = 0; index < count; index++) {
    texts.push(reader.bufferedText() ?? (await reader.text(what)));
  }
  return texts;
};
