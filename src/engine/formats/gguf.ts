import type { ByteSource, ModelFiles } from '../platform.ts';
import { readMetadata } from './gguf-metadata.ts';
import { type GgufPart, openSplitSet } from './gguf-split.ts';
import { readTensorTable } from './gguf-tensors.ts';
import { HeaderReader } from './header-reader.ts';
import { type ModelFile, ModelFileError } from './model-file.ts';
import { describeForeignFile } from './foreign-file.ts';
import { bytesOfRow, checkRows } from './rows.ts';

/** 'GGUF' as a little-endian u32, and its byte-swapped form. */
const magic = 0x46554747;
const swappedMagic = 0x47475546;
/** Magic, version, tensor count, metadata count. */
const fixedHeaderBytes = 24;

/**
 * Opens a GGUF file (version 2 or 3, little-endian). For one part of a split model, opens all parts. Reads only
 * headers; `readRows` reads weights.
 * @param entry the file's name in `files`
 * @throws ModelFileError `not_found`, `wrong_magic`, `big_endian`, `unsupported_version`, `unsupported_type`, `split`,
 *   `truncated` or `corrupt`; the message names the file and what to do
 */
export const openGguf = async (files: ModelFiles, entry: string): Promise<ModelFile> => {
  const opened: ByteSource[] = [];
  const openPart = async (name: string): Promise<GgufPart | undefined> => {
    const source = await files.open(name);
    if (!source) return undefined;
    opened.push(source);
    return await readHeader(source);
  };
  try {
    const entryPart = await openPart(entry);
    if (!entryPart) throw new ModelFileError('not_found', `${files.name}: there is no file '${entry}'`);
    return createModelFile(await openSplitSet(entryPart, entry, openPart));
  } catch (error) {
    await Promise.all(opened.map((source) => source.close()));
    throw error;
  }
};

const readHeader = async (source: ByteSource): Promise<GgufPart> => {
  const reader = new HeaderReader(source);
  await checkMagic(reader, source);
  await reader.ensure(fixedHeaderBytes - 8, 'the header');
  const tensorCount = reader.u64Length();
  const metadataCount = reader.u64Length();
  const metadata = await readMetadata(reader, metadataCount);
  const tensors = await readTensorTable(reader, {
    count: tensorCount,
    alignment: metadata.get('general.alignment') ?? 32,
    fileBytes: source.sizeBytes,
  });
  return { source, metadata, tensors };
};

/** @param parts in order; the first has the metadata of all */
const createModelFile = (parts: readonly [GgufPart, ...GgufPart[]]): ModelFile => {
  const [first] = parts;
  const sources = new Map<string, ByteSource>();
  for (const { source, tensors } of parts) for (const name of tensors.keys()) sources.set(name, source);
  return {
    format: 'gguf',
    name: first.source.name,
    sizeBytes: parts.reduce((sum, { source }) => sum + source.sizeBytes, 0),
    metadata: first.metadata,
    tensors: parts.length === 1 ? first.tensors : new Map(parts.flatMap(({ tensors }) => [...tensors])),
    async readRows(tensor, firstRow, rows, into) {
      const source = sources.get(tensor.name);
      if (!source) throw new RangeError(`${first.source.name} has no tensor '${tensor.name}'`);
      const rowBytes = bytesOfRow(tensor);
      checkRows(tensor, firstRow, rows);
      return source.read(tensor.offset + firstRow * rowBytes, rows * rowBytes, into);
    },
    async close() {
      await Promise.all(parts.map(({ source }) => source.close()));
    },
  };
};

const checkMagic = async (reader: HeaderReader, source: ByteSource): Promise<void> => {
  if (source.sizeBytes === 0) throw reader.createError('truncated', 'the file is empty; download it again');
  const head = await source.read(0, Math.min(64, source.sizeBytes));
  const view = new DataView(head.buffer, head.byteOffset, head.byteLength);
  const fileMagic = head.length < 4 ? 0 : view.getUint32(0, true);
  if (fileMagic !== magic && fileMagic !== swappedMagic) {
    throw reader.createError('wrong_magic', `not a GGUF file: this is ${describeForeignFile(head)}`);
  }
  await reader.ensure(8, 'the header');
  reader.u32();
  const version = reader.u32();
  // Big-endian files keep the letters in order and swap every number after them.
  if (fileMagic === swappedMagic || (version & 0xffff) === 0) {
    throw reader.createError(
      'big_endian',
      'this GGUF is big-endian; convert it to little-endian first (gguf_convert_endian.py of llama.cpp)',
    );
  }
  if (version !== 2 && version !== 3) {
    throw reader.createError(
      'unsupported_version',
      `GGUF version ${version} (supported: 2, 3)${version === 1 ? '; convert the model again' : ''}`,
    );
  }
};
