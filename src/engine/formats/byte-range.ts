import type { ByteSource } from '../platform.ts';

/** Refuses a read that leaves the file, or a target that is too small for it: mistakes of the caller. */
export const checkRange = (
  { name, sizeBytes }: Pick<ByteSource, 'name' | 'sizeBytes'>,
  { offset, length, into }: { offset: number; length: number; into: Uint8Array | undefined },
): void => {
  if (offset < 0 || length < 0 || offset + length > sizeBytes) {
    throw new RangeError(
      `${name}: bytes ${offset} to ${offset + length} leave the file (${sizeBytes} bytes)`,
    );
  }
  if (into && into.length < length) {
    throw new RangeError(`${name}: ${length} bytes do not fit into ${into.length}`);
  }
};
