import { basename } from 'node:path';
import type { ChangeTool, Proposal, ToolContext } from '../../tool.ts';
import { unifiedDiff } from '../diff.ts';
import { type AllowedPath, type Confinement, retryWhenSwapped } from '../paths/confinement.ts';
import type { Folder } from '../paths/folder.ts';
import { type BaseHash, hashBytes, hashFile, decodeText, readWholeFile, withFile } from '../paths/files.ts';
import { withRefusalAsOutput, escapeLine, Refusal } from '../refusal.ts';
import { mergeStaged, readStaged } from './staged-view.ts';
import { changeSchema, pathSchema } from './schema.ts';
import { type FileChanges, readIntent, type StagedFile } from './staged-file.ts';

/** Maximum bytes of a file whose text is included in the proposal. */
const maxShown = 256 * 1024;
const maxHashed = 256 * 1024 * 1024;

interface DeletionTarget {
  readonly base: BaseHash;
  readonly description: string;
  readonly remove: 'file' | 'empty_folder';
  /** Content of a text file that is small enough to be shown. */
  readonly text?: string;
}

export const fsDelete = (confinement: Confinement, changes: FileChanges): ChangeTool => ({
  kind: 'change',
  name: 'fs_delete',
  description: 'Deletes one file, or one empty folder.',
  source: 'builtin',
  inputSchema: changeSchema({ path: pathSchema }, ['path']),
  propose: (args, context) =>
    withRefusalAsOutput(async (): Promise<Proposal> => {
      // Links are not followed: the named entry itself would be deleted.
      const allowed = await confinement.resolveAllowed(String(args['path']), context, 'write', false);
      const { shown, missing } = allowed;
      const staged = await readStaged(context, allowed.path);
      if (staged === 'deleted' || (missing.length > 0 && !staged))
        throw new Refusal(`${shown}: there is no such file or folder.`);
      const target = staged
        ? describeFile(Buffer.from(staged.text))
        : await retryWhenSwapped(shown, async () => {
            const folder = await confinement.openParent(allowed);
            try {
              return await inspectTarget(folder, allowed, context);
            } finally {
              await folder.close();
            }
          });
      const payload: StagedFile = {
        path: allowed.path,
        write: context.grants.write,
        base: target.base,
        change: { remove: target.remove },
      };
      return {
        kind: 'file_delete',
        intent: readIntent(args),
        summary: `Delete ${target.description} ${escapeLine(allowed.path)}.`,
        path: allowed.path,
        ...(target.text === undefined ? {} : { diff: unifiedDiff(allowed.path, target.text, undefined) }),
        baseHash: target.base,
        risk: 'high',
        payload,
      };
    }),
  apply: (payload, signal) => changes.apply(payload as StagedFile, signal),
  verify: (payload) => changes.verify(payload as StagedFile),
});

async function inspectTarget(
  folder: Folder,
  { path, shown }: AllowedPath,
  { staged, signal }: Pick<ToolContext, 'staged' | 'signal'>,
): Promise<DeletionTarget> {
  const name = basename(path);
  const kind = await folder.kind(name);
  if (kind === undefined || name === '') throw new Refusal(`${shown}: there is no such file or folder.`);
  if (kind === 'link') throw new Refusal(`${shown} is a link; only files and empty folders can be deleted.`);
  if (kind === 'folder') {
    const changes = (await staged?.listBelow(path)) ?? [];
    const subfolder = await folder.openFolder(name);
    try {
      const { entries } = await subfolder.entries(changes.length + 1);
      if (mergeStaged(entries, path, changes).length > 0)
        throw new Refusal(`${shown} is a folder that is not empty; delete what is in it first.`);
    } finally {
      await subfolder.close();
    }
    return { base: hashBytes(Buffer.alloc(0)), description: 'the empty folder', remove: 'empty_folder' };
  }
  const target = await withFile(folder, name, async (file): Promise<DeletionTarget> => {
    const { size } = await file.stat();
    if (size > maxHashed)
      throw new Refusal(`${shown} has ${size} bytes; files of more than ${maxHashed} are left to people.`);
    if (size > maxShown)
      return {
        base: await hashFile(file, signal),
        description: `the file (${size} bytes)`,
        remove: 'file' as const,
      };
    return describeFile(await readWholeFile(file, shown, maxHashed, signal));
  });
  if (!target) throw new Refusal(`${shown}: there is no such file or folder.`);
  return target;
}

function describeFile(bytes: Buffer): DeletionTarget {
  const text = decodeText(bytes);
  return {
    base: hashBytes(bytes),
    description: `the ${text === undefined ? 'binary ' : ''}file (${bytes.length} bytes)`,
    remove: 'file',
    ...(text === undefined || bytes.length > maxShown ? {} : { text }),
  };
}
