import { basename } from 'node:path';
import type { ChangeTool, Proposal } from '../../tool.ts';
import { unifiedDiff } from '../diff.ts';
import { type Confinement, undisturbed } from '../paths/confinement.ts';
import type { Folder } from '../paths/folder.ts';
import { type BaseHash, hashOf, hashOfFile, textOf, wholeFile, withFile } from '../paths/files.ts';
import { answering, onOneLine, Refusal } from '../refusal.ts';
import { aChange, aPath } from './schema.ts';
import { type FileChanges, intentOf, type StagedFile } from './staged-file.ts';

/** Maximum bytes of a file whose text is included in the proposal. */
const mostShown = 256 * 1024;
const mostHashed = 256 * 1024 * 1024;

interface Found {
  readonly base: BaseHash;
  readonly what: string;
  readonly remove: 'file' | 'empty_folder';
  /** Content of a text file that is small enough to be shown. */
  readonly text?: string;
}

export const fsDelete = (confinement: Confinement, changes: FileChanges): ChangeTool => ({
  kind: 'change',
  name: 'fs_delete',
  description: 'Deletes one file, or one empty folder.',
  source: 'builtin',
  inputSchema: aChange({ path: aPath }, ['path']),
  propose: (args, context) =>
    answering(async (): Promise<Proposal> => {
      // Links are not followed: the named entry itself would be deleted.
      const allowed = await confinement.allowed(String(args['path']), context, 'write', false);
      const { shown, missing } = allowed;
      if (missing.length > 0) throw new Refusal(`${shown}: there is no such file or folder.`);
      const found = await undisturbed(shown, async () => {
        const folder = await confinement.openParent(allowed);
        try {
          return await inspected(folder, basename(allowed.path), shown, context.signal);
        } finally {
          await folder.close();
        }
      });
      const payload: StagedFile = {
        path: allowed.path,
        write: context.grants.write,
        base: found.base,
        change: { remove: found.remove },
      };
      return {
        kind: 'file_delete',
        intent: intentOf(args),
        summary: `Delete ${found.what} ${onOneLine(allowed.path)}.`,
        path: allowed.path,
        ...(found.text === undefined ? {} : { diff: unifiedDiff(allowed.path, found.text, undefined) }),
        baseHash: found.base,
        risk: 'high',
        payload,
      };
    }),
  apply: (payload, signal) => changes.apply(payload as StagedFile, signal),
  verify: (payload) => changes.verify(payload as StagedFile),
});

async function inspected(folder: Folder, name: string, shown: string, signal: AbortSignal): Promise<Found> {
  const kind = await folder.kind(name);
  if (kind === undefined || name === '') throw new Refusal(`${shown}: there is no such file or folder.`);
  if (kind === 'link') throw new Refusal(`${shown} is a link; only files and empty folders can be deleted.`);
  if (kind === 'folder') {
    const inside = await folder.folder(name);
    try {
      const { entries } = await inside.entries(1);
      if (entries.length > 0)
        throw new Refusal(`${shown} is a folder that is not empty; delete what is in it first.`);
    } finally {
      await inside.close();
    }
    return { base: hashOf(Buffer.alloc(0)), what: 'the empty folder', remove: 'empty_folder' };
  }
  const found = await withFile(folder, name, async (file): Promise<Found> => {
    const { size } = await file.stat();
    if (size > mostHashed)
      throw new Refusal(`${shown} has ${size} bytes; files of more than ${mostHashed} are left to people.`);
    const remove = 'file' as const;
    if (size > mostShown)
      return { base: await hashOfFile(file, signal), what: `the file (${size} bytes)`, remove };
    const bytes = await wholeFile(file, shown, mostHashed, signal);
    const text = textOf(bytes);
    const what = `the ${text === undefined ? 'binary ' : ''}file (${bytes.length} bytes)`;
    return { base: hashOf(bytes), what, remove, ...(text === undefined ? {} : { text }) };
  });
  if (!found) throw new Refusal(`${shown}: there is no such file or folder.`);
  return found;
}
