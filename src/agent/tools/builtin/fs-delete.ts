import type { ChangeTool, Proposal, ToolContext } from '../../tool.ts';
import { unifiedDiff } from '../diff.ts';
import type { AllowedPath, Confinement } from '../paths/confinement.ts';
import type { Folder } from '../paths/folder.ts';
import { type BaseHash, hashBytes, hashFile, decodeText, readWholeFile, withFile } from '../paths/files.ts';
import { withRefusalAsOutput, escapeLine, Refusal } from '../refusal.ts';
import { mergeStaged, type StagedView, type ViewFolder, viewOf } from './staged-view.ts';
import { changeSchema, pathSchema } from './schema.ts';
import { type FileChanges, openFound, readIntent, type StagedFile } from './staged-file.ts';

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
      const view = await viewOf(context);
      // Links are not followed: the named entry itself would be deleted.
      const allowed = await confinement.resolveAllowed(
        String(args['path']),
        { ...context, view },
        'write',
        false,
      );
      const target = await inspectTarget(confinement, allowed, { ...context, view });
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
  confinement: Confinement,
  allowed: AllowedPath,
  context: ToolContext & { readonly view: StagedView },
): Promise<DeletionTarget> {
  const { shown } = allowed;
  const found = context.view.find(allowed.path);
  if (found.kind === 'text') return describeFile(Buffer.from(await context.view.textOf(found)));
  const merged = found.kind === 'folder' ? found : undefined;
  const target =
    found.kind === 'absent' || found.real === undefined
      ? undefined
      : await openFound(confinement, { allowed, real: found.real }, context, (folder, name) =>
          inspectEntry(folder, name, { shown, merged, signal: context.signal }),
        );
  if (target) return target;
  if (!merged) throw new Refusal(`${shown}: there is no such file or folder.`);
  requireEmpty(shown, mergeStaged([], merged));
  return emptyFolder;
}

const emptyFolder: DeletionTarget = {
  base: hashBytes(Buffer.alloc(0)),
  description: 'the empty folder',
  remove: 'empty_folder',
};

function requireEmpty(shown: string, entries: readonly unknown[]): void {
  if (entries.length > 0)
    throw new Refusal(`${shown} is a folder that is not empty; delete what is in it first.`);
}

/** @param merged staged changes of the folder that it is */
async function inspectEntry(
  folder: Folder,
  name: string,
  { shown, merged, signal }: { shown: string; merged: ViewFolder | undefined; signal: AbortSignal },
): Promise<DeletionTarget | undefined> {
  const kind = await folder.kind(name);
  if (kind === undefined || name === '') return undefined;
  if (kind === 'link') throw new Refusal(`${shown} is a link; only files and empty folders can be deleted.`);
  if (kind === 'folder') {
    const subfolder = await folder.openFolder(name);
    try {
      const { entries } = await subfolder.entries((merged?.children.size ?? 0) + 1);
      requireEmpty(shown, mergeStaged(entries, merged));
    } finally {
      await subfolder.close();
    }
    return emptyFolder;
  }
  if (merged) return undefined;
  return await withFile(folder, name, async (file): Promise<DeletionTarget> => {
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
