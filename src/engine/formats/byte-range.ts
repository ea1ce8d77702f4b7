import type { ByteSource } from '../platform.ts';

/**
 * Checks that a read stays inside the file and fits its target buffer.
 * @throws RangeError a programming error of the caller
 */
export const checkRange = (
  { name, sizeBytes }: Pick<ByteSource, 'name' | 'sizeBytes'>,
  { offset, length, into }: { offset: number; length: number; into: Uint8Array | undefined },
): void => {
  if (offset < 0 || length < 0 || offset + length > sizeBytes) {
    throw new RangeError(
      `${name}: bytes ${offset} to ${offset + length} are outside the file (${sizeBytes} bytes)`,
    );
  }
  if (into && into.length < length) {
    throw new RangeError(`${name}: ${length} bytes do not fit into a buffer of ${into.length} bytes`);
  }
};
