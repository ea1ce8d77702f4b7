import { hashedBytes } from './digest.ts';
import type { ModelFile } from '../formats/model-file.ts';
import { rowsOf } from '../formats/rows.ts';
import type { Hasher, Platform } from '../platform.ts';

/** A tensor whose rows before `next` were read in order. */
interface PartialHash {
  readonly hasher: Hasher;
  next: number;
}

/**
 * Wraps a file so that each tensor is hashed while it is read for the first time. `digestOf` then need not read it
 * again. For remote files; a local file is hashed later, in the background. A tensor whose rows are not read in order
 * gets no hash.
 */
export function hashWhileReading(
  platform: Pick<Platform, 'sha256'>,
  file: ModelFile,
): { readonly file: ModelFile; readonly hashes: ReadonlyMap<string, string> } {
  const hashes = new Map<string, string>();
  const partialHashes = new Map<string, PartialHash>();
  const hashingFile: ModelFile = {
    ...file,
    async readRows(tensor, firstRow, rows, into) {
      const bytes = await file.readRows(tensor, firstRow, rows, into);
      const { name } = tensor;
      if (hashes.has(name)) return bytes;
      const partialHash = partialHashes.get(name) ?? { hasher: platform.sha256(), next: 0 };
      partialHashes.set(name, partialHash);
      if (firstRow !== partialHash.next) return bytes;
      partialHash.hasher.update(hashedBytes(tensor, bytes));
      partialHash.next += rows;
      if (partialHash.next === rowsOf(tensor)) {
        hashes.set(name, partialHash.hasher.digest());
        partialHashes.delete(name);
      }
      return bytes;
    },
    close: () => file.close(),
  };
  return { file: hashingFile, hashes };
}
