import type { ByteSource } from '../platform.ts';
import { readMetadata } from './gguf-metadata.ts';
import { readTensorTable } from './gguf-tensors.ts';
import { HeaderReader } from './header-reader.ts';
import { type ModelFile, type TensorInfo, tensorTypes } from './model-file.ts';
import { describeForeignFile } from './recognise.ts';

/** 'GGUF' as a little-endian u32, and the same byte-swapped. */
const magic = 0x46554747;
const swappedMagic = 0x47475546;
/** Magic, version, tensor count, metadata count. */
const fixedHeaderBytes = 24;

/**
 * Opens a GGUF file (version 2 or 3, little-endian). Reads the header only; weights come by `readRows`.
 * Takes `source` over: the model's `close` closes it, and a failed open closes it too.
 * @throws ModelFileError `wrong_magic`, `big_endian`, `unsupported_version`, `unsupported_type`, `split`,
 *   `truncated` or `corrupt`; the message names the file and what to do
 */
export const openGguf = async (source: ByteSource): Promise<ModelFile> => {
  try {
    return await readHeader(source);
  } catch (error) {
    await source.close();
    throw error;
  }
};

const readHeader = async (source: ByteSource): Promise<ModelFile> => {
  const reader = new HeaderReader(source);
  await checkMagic(reader, source);
  await reader.ensure(fixedHeaderBytes - 8, 'the header');
  const tensorCount = reader.length();
  const metadataCount = reader.length();
  const metadata = await readMetadata(reader, metadataCount);
  const shards = metadata.get('split.count');
  if (typeof shards === 'number' && shards > 1) {
    throw reader.fail(
      'split',
      `this is one of ${shards} parts of a model; merge them into one file first (llama-gguf-split --merge)`,
    );
  }
  const tensors = await readTensorTable(reader, {
    count: tensorCount,
    alignment: metadata.get('general.alignment') ?? 32,
    fileBytes: source.sizeBytes,
  });

  return {
    format: 'gguf',
    name: source.name,
    sizeBytes: source.sizeBytes,
    metadata,
    tensors,
    async readRows(tensor, firstRow, rows, into) {
      const rowBytes = bytesOfRow(tensor);
      const length = rows * rowBytes;
      if (firstRow < 0 || rows < 0 || (firstRow + rows) * rowBytes > tensor.sizeBytes) {
        throw new RangeError(
          `rows ${firstRow}..${firstRow + rows} leave tensor '${tensor.name}' [${tensor.shape.join(', ')}]`,
        );
      }
      return source.read(tensor.offset + firstRow * rowBytes, length, into);
    },
    close: () => source.close(),
  };
};

const checkMagic = async (reader: HeaderReader, source: ByteSource): Promise<void> => {
  if (source.sizeBytes === 0) throw reader.fail('truncated', 'the file is empty; download it again');
  const head = await source.read(0, Math.min(64, source.sizeBytes));
  const view = new DataView(head.buffer, head.byteOffset, head.byteLength);
  const found = head.length < 4 ? 0 : view.getUint32(0, true);
  if (found !== magic && found !== swappedMagic) {
    throw reader.fail('wrong_magic', `not a GGUF file: this is ${describeForeignFile(head)}`);
  }
  await reader.ensure(8, 'the header');
  reader.u32();
  const version = reader.u32();
  // Big-endian files keep the letters in order and swap every number after them.
  if (found === swappedMagic || (version & 0xffff) === 0) {
    throw reader.fail(
      'big_endian',
      'this GGUF is big-endian; convert it to little-endian first (gguf_convert_endian.py of llama.cpp)',
    );
  }
  if (version !== 2 && version !== 3) {
    throw reader.fail(
      'unsupported_version',
      `GGUF version ${version} (supported: 2, 3)${version === 1 ? '; convert the model again' : ''}`,
    );
  }
};

/** Bytes of one row, that is of the innermost dimension, in the file's encoding. */
const bytesOfRow = ({ type, shape }: Pick<TensorInfo, 'type' | 'shape'>): number => {
  const { blockElements, blockBytes } = tensorTypes[type];
  return ((shape.at(-1) ?? 1) / blockElements) * blockBytes;
};
