import { hashedPart } from './digest.ts';
import type { ModelFile } from './formats/model-file.ts';
import { rowsOf } from './formats/rows.ts';
import type { Hasher, Platform } from './platform.ts';

/** A tensor whose rows before `next` were read in order. */
interface Begun {
  readonly hasher: Hasher;
  next: number;
}

/**
 * Wraps a file so that each tensor is hashed while it is read for the first time. `digestOf` then need not read it
 * again. For remote files; a local file is hashed later, in the background. A tensor whose rows are not read in order
 * gets no hash.
 */
export function hashedAsRead(
  platform: Pick<Platform, 'sha256'>,
  file: ModelFile,
): { readonly file: ModelFile; readonly hashes: ReadonlyMap<string, string> } {
  const hashes = new Map<string, string>();
  const begun = new Map<string, Begun>();
  const reading: ModelFile = {
    ...file,
    async readRows(tensor, firstRow, rows, into) {
      const bytes = await file.readRows(tensor, firstRow, rows, into);
      const { name } = tensor;
      if (hashes.has(name)) return bytes;
      const one = begun.get(name) ?? { hasher: platform.sha256(), next: 0 };
      begun.set(name, one);
      if (firstRow !== one.next) return bytes;
      one.hasher.update(hashedPart(tensor, bytes));
      one.next += rows;
      if (one.next === rowsOf(tensor)) {
        hashes.set(name, one.hasher.digest());
        begun.delete(name);
      }
      return bytes;
    },
    close: () => file.close(),
  };
  return { file: reading, hashes };
}
