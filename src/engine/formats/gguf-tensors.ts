import { ggufTensorTypes, ggufTypeName } from './gguf-types.ts';
import { type HeaderReader, formatCount } from './header-reader.ts';
import { type MetadataArray, type MetadataScalar, type TensorInfo, tensorTypes } from './model-file.ts';

/** Fields of the shortest entry: name length, dimension count, one dimension, type, offset. */
const minEntryBytes = 8 + 4 + 8 + 4 + 8;
const maxDimensions = 4;
/** Far more than any model has. An entry takes many times its file size in memory. */
const maxTensors = 1 << 20;

interface TensorEntry {
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
  const alignment = parseAlignment(reader, file.alignment);
  reader.assertFits(count * minEntryBytes, `the table of ${formatCount(count)} tensors`);
  if (count > maxTensors) {
    throw reader.createError(
      'corrupt',
      `${count} tensors are too many (at most ${maxTensors}); the file is corrupt`,
    );
  }
  const entries: TensorEntry[] = [];
  for (let index = 0; index < count; index++) entries.push(await readEntry(reader, index));
  rejectUnsupportedTypes(reader, entries);

  const dataStart = Math.ceil(reader.position / alignment) * alignment;
  const tensors = new Map<string, TensorInfo>();
  for (const entry of entries) {
    if (tensors.has(entry.name)) {
      throw reader.createError('corrupt', `tensor '${entry.name}' occurs twice; the file is corrupt`);
    }
    tensors.set(entry.name, locateTensor(reader, entry, { dataStart, alignment }));
  }
  assertTensorLayout(reader, [...tensors.values()], fileBytes);
  return tensors;
};

const parseAlignment = (reader: HeaderReader, value: MetadataScalar | MetadataArray): number => {
  // GGUF's reference reader requires a power of two.
  if (typeof value !== 'number' || !(value >= 1 && value <= 1 << 30) || (value & (value - 1)) !== 0) {
    throw reader.createError(
      'corrupt',
      `general.alignment is ${String(value)}, not a power of two; the file is corrupt`,
    );
  }
  return value;
};

const readEntry = async (reader: HeaderReader, index: number): Promise<TensorEntry> => {
  const name = await reader.readString(`the name of tensor ${index}`);
  const label = `tensor '${name}'`;
  if (name === '') throw reader.createError('corrupt', `tensor ${index} has no name; the file is corrupt`);
  await reader.ensure(4, label);
  const dimensions = reader.u32();
  if (dimensions < 1 || dimensions > maxDimensions) {
    throw reader.createError(
      'corrupt',
      `${label} has ${dimensions} dimensions (expected 1 to ${maxDimensions}); the file is corrupt`,
    );
  }
  await reader.ensure(dimensions * 8 + 12, label);
  const shape: number[] = [];
  let elements = 1;
  for (let dimension = 0; dimension < dimensions; dimension++) {
    const extent = reader.u64Length();
    elements *= extent;
    shape.unshift(extent);
  }
  // 0 * Infinity is NaN, which fails both comparisons.
  if (!(elements >= 1 && elements <= Number.MAX_SAFE_INTEGER)) {
    throw reader.createError(
      'corrupt',
      `${label} has the invalid shape [${shape.map(formatCount).join(', ')}]; the file is corrupt`,
    );
  }
  const type = reader.u32();
  return { name, shape, type, offset: reader.u64Length() };
};

const rejectUnsupportedTypes = (reader: HeaderReader, entries: readonly TensorEntry[]): void => {
  const unsupported = entries.filter(({ type }) => !ggufTensorTypes.has(type));
  const [first] = unsupported;
  if (!first) return;
  const more = unsupported.length > 1 ? ` (and ${unsupported.length - 1} more)` : '';
  const supported = [...ggufTensorTypes.values()].join(', ');
  throw reader.createError(
    'unsupported_type',
    `tensor '${first.name}'${more} is stored as ${ggufTypeName(first.type)} (supported: ${supported}); download the model in one of these types, for example Q8_0`,
  );
};

const locateTensor = (
  reader: HeaderReader,
  { name, shape, type: number, offset }: TensorEntry,
  { dataStart, alignment }: { dataStart: number; alignment: number },
): TensorInfo => {
  const type = ggufTensorTypes.get(number) ?? 'F32';
  const { blockElements, blockBytes } = tensorTypes[type];
  const columns = shape.at(-1) ?? 1;
  if (columns % blockElements !== 0) {
    throw reader.createError(
      'corrupt',
      `tensor '${name}' has rows of ${columns} elements, not a multiple of the ${blockElements} elements of a ${type} block; the file is corrupt`,
    );
  }
  if (offset % alignment !== 0) {
    throw reader.createError(
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

const assertTensorLayout = (reader: HeaderReader, tensors: TensorInfo[], fileBytes: number): void => {
  tensors.sort((a, b) => a.offset - b.offset);
  const last = tensors.reduce<TensorInfo | undefined>(
    (latest, tensor) =>
      latest && latest.offset + latest.sizeBytes >= tensor.offset + tensor.sizeBytes ? latest : tensor,
    undefined,
  );
  // `!(a <= b)` also rejects Infinity and values above 2^53.
  if (last && !(last.offset + last.sizeBytes <= fileBytes)) {
    throw reader.createError(
      'truncated',
      `the file has ${fileBytes} bytes, but tensor '${last.name}' ends at ${last.offset + last.sizeBytes}; download it again`,
    );
  }
  let previous: TensorInfo | undefined;
  for (const tensor of tensors) {
    if (previous && previous.offset + previous.sizeBytes > tensor.offset) {
      throw reader.createError(
        'corrupt',
        `tensors '${previous.name}' and '${tensor.name}' overlap; the file is corrupt`,
      );
    }
    previous = tensor;
  }
};
