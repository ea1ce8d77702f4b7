import { openGguf } from '../../src/engine/formats/gguf.ts';
import type { ModelFile } from '../../src/engine/formats/model-file.ts';
import type { ByteSource, ModelFiles } from '../../src/engine/platform.ts';

/** A file in memory that records what is read of it. */
export interface MemorySource extends ByteSource {
  readonly bytesRead: number;
  readonly largestRead: number;
  readonly closed: boolean;
}

export const memorySource = (bytes: Uint8Array, name = 'test.gguf'): MemorySource => {
  let bytesRead = 0;
  let largestRead = 0;
  let closed = false;
  return {
    name,
    sizeBytes: bytes.length,
    get bytesRead() {
      return bytesRead;
    },
    get largestRead() {
      return largestRead;
    },
    get closed() {
      return closed;
    },
    async read(offset, length, into) {
      if (offset < 0 || length < 0 || offset + length > bytes.length) {
        throw new RangeError(
          `bytes ${offset} to ${offset + length} are outside the file (${bytes.length} bytes)`,
        );
      }
      bytesRead += length;
      largestRead = Math.max(largestRead, length);
      const target = into ?? new Uint8Array(length);
      target.set(bytes.subarray(offset, offset + length));
      return target.subarray(0, length);
    },
    async close() {
      closed = true;
    },
  };
};

/** A folder of files that are open already; `entry` is the one that was named. */
export const filesOf = (sources: Readonly<Record<string, ByteSource>>, entry?: string): ModelFiles => ({
  name: entry === undefined ? 'folder' : `folder/${entry}`,
  entry,
  list: async () => Object.keys(sources),
  open: async (name) => (Object.hasOwn(sources, name) ? sources[name] : undefined),
});

/** A folder in memory. */
export const memoryFiles = (contents: Readonly<Record<string, Uint8Array>>, entry?: string): ModelFiles =>
  filesOf(
    Object.fromEntries(Object.entries(contents).map(([name, bytes]) => [name, memorySource(bytes, name)])),
    entry,
  );

/** Opens one GGUF file that is open already. */
export const openSource = (source: ByteSource): Promise<ModelFile> =>
  openGguf(filesOf({ 'test.gguf': source }), 'test.gguf');
