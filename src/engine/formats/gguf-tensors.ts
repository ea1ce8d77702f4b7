import { ggufTensorTypes, ggufTypeName } from './gguf-types.ts';
import { type HeaderReader, shown } from './header-reader.ts';
import { type MetadataArray, type MetadataScalar, type TensorInfo, tensorTypes } from './model-file.ts';

/** Fields of the shortest entry: name length, dimension count, one dimension, type, offset. */
const leastEntryBytes = 8 + 4 + 8 + 4 + 8;
const mostDimensions = 4;
/** Far more than any model has. An entry takes many times its file size in memory. */
const mostTensors = 1 << 20;

interface Entry {
  readonly name: string;
  /** Outermost first. */
  readonly shape: readonly number[];
  readonly type: number;
  /** Byte offset from the start of the data section. */
  readonly offset: number;
}

/**
 * Reads the tensor table and checks that every tensor is inside the file, aligned, and overlaps no other.
 * @throws ModelFileError `corrupt`, `truncated` or `unsupported_type`
 */
export const readTensorTable = async (
  reader: HeaderReader,
  file: { count: number; alignment: MetadataScalar | MetadataArray; fileBytes: number },
): Promise<Map<string, TensorInfo>> => {
  const { count, fileBytes } = file;
  const alignment = checkAlignment(reader, file.alignment);
  reader.expect(count * leastEntryBytes, `the table of ${shown(count)} tensors`);
  if (count > mostTensors) {
    throw reader.fail(
      'corrupt',
      `${count} tensors are too many (at most ${mostTensors}); the file is corrupt`,
    );
  }
  const entries: Entry[] = [];
  for (let index = 0; index < count; index++) entries.push(await readEntry(reader, index));
  refuseOtherTypes(reader, entries);

  const dataStart = Math.ceil(reader.position / alignment) * alignment;
  const tensors = new Map<string, TensorInfo>();
  for (const entry of entries) {
    if (tensors.has(entry.name)) {
      throw reader.fail('corrupt', `tensor '${entry.name}' occurs twice; the file is corrupt`);
    }
    tensors.set(entry.name, place(reader, entry, { dataStart, alignment }));
  }
  checkPlaces(reader, [...tensors.values()], fileBytes);
  return tensors;
};

const checkAlignment = (reader: HeaderReader, value: MetadataScalar | MetadataArray): number => {
  // GGUF's reference reader requires a power of two.
  if (typeof value !== 'number' || !(value >= 1 && value <= 1 << 30) || (value & (value - 1)) !== 0) {
    throw reader.fail(
      'corrupt',
      `general.alignment is ${String(value)}, not a power of two; the file is corrupt`,
    );
  }
  return value;
};

const readEntry = async (reader: HeaderReader, index: number): Promise<Entry> => {
  const name = await reader.text(`the name of tensor ${index}`);
  const what = `tensor '${name}'`;
  if (name === '') throw reader.fail('corrupt', `tensor ${index} has no name; the file is corrupt`);
  await reader.ensure(4, what);
  const dimensions = reader.u32();
  if (dimensions < 1 || dimensions > mostDimensions) {
    throw reader.fail(
      'corrupt',
      `${what} has ${dimensions} dimensions (expected 1 to ${mostDimensions}); the file is corrupt`,
    );
  }
  await reader.ensure(dimensions * 8 + 12, what);
  const shape: number[] = [];
  let elements = 1;
  for (let dimension = 0; dimension < dimensions; dimension++) {
    const extent = reader.length();
    elements *= extent;
    shape.unshift(extent);
  }
  // 0 * Infinity is NaN, which fails both comparisons.
  if (!(elements >= 1 && elements <= Number.MAX_SAFE_INTEGER)) {
    throw reader.fail(
      'corrupt',
      `${what} has the invalid shape [${shape.map(shown).join(', ')}]; the file is corrupt`,
    );
  }
  const type = reader.u32();
  return { name, shape, type, offset: reader.length() };
};

const refuseOtherTypes = (reader: HeaderReader, entries: readonly Entry[]): void => {
  const others = entries.filter(({ type }) => !ggufTensorTypes.has(type));
  const [first] = others;
  if (!first) return;
  const more = others.length > 1 ? ` (and ${others.length - 1} more)` : '';
  const supported = [...ggufTensorTypes.values()].join(', ');
  throw reader.fail(
    'unsupported_type',
    `tensor '${first.name}'${more} is stored as ${ggufTypeName(first.type)} (supported: ${supported}); download the model in one of these types, for example Q8_0`,
  );
};

const place = (
  reader: HeaderReader,
  { name, shape, type: number, offset }: Entry,
  { dataStart, alignment }: { dataStart: number; alignment: number },
): TensorInfo => {
  const type = ggufTensorTypes.get(number) ?? 'F32';
  const { blockElements, blockBytes } = tensorTypes[type];
  const columns = shape.at(-1) ?? 1;
  if (columns % blockElements !== 0) {
    throw reader.fail(
      'corrupt',
      `tensor '${name}' has rows of ${columns} elements, not a multiple of the ${blockElements} elements of a ${type} block; the file is corrupt`,
    );
  }
  if (offset % alignment !== 0) {
    throw reader.fail(
      'corrupt',
      `tensor '${name}' is at data offset ${offset}, not a multiple of the alignment ${alignment}; the file is corrupt`,
    );
  }
  const elements = shape.reduce((product, extent) => product * extent, 1);
  return {
    name,
    type,
    shape,
    offset: dataStart + offset,
    sizeBytes: (elements / blockElements) * blockBytes,
  };
};

const checkPlaces = (reader: HeaderReader, tensors: TensorInfo[], fileBytes: number): void => {
  tensors.sort((a, b) => a.offset - b.offset);
  const last = tensors.reduce<TensorInfo | undefined>(
    (latest, tensor) =>
      latest && latest.offset + latest.sizeBytes >= tensor.offset + tensor.sizeBytes ? latest : tensor,
    undefined,
  );
  // `!(a <= b)` also rejects Infinity and values above 2^53.
  if (last && !(last.offset + last.sizeBytes <= fileBytes)) {
    throw reader.fail(
      'truncated',
      `the file has ${fileBytes} bytes, but tensor '${last.name}' ends at ${last.offset + last.sizeBytes}; download it again`,
    );
  }
  let previous: TensorInfo | undefined;
  for (const tensor of tensors) {
    if (previous && previous.offset + previous.sizeBytes > tensor.offset) {
      throw reader.fail(
        'corrupt',
        `tensors '${previous.name}' and '${tensor.name}' overlap; the file is corrupt`,
      );
    }
    previous = tensor;
  }
};
