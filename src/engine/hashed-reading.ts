import { hashedPart } from './digest.ts';
import type { ModelFile } from './formats/model-file.ts';
import { rowsOf } from './formats/rows.ts';
import type { Hasher, Platform } from './platform.ts';

/** A tensor of which the rows before `next` were read, in order. */
interface Begun {
  readonly hasher: Hasher;
  next: number;
}

/**
 * The same file, and the hashes of its tensors as they are read for the first time: for `digestOf`, which need not read
 * them again then. For files that are far away; a near one is hashed later, when nobody waits for it.
 * A tensor whose rows are not read from first to last has no hash.
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
