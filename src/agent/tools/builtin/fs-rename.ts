import { basename } from 'node:path';
import type { ChangeTool, Proposal, ToolContext } from '../../tool.ts';
import type { AllowedPath, Confinement } from '../paths/confinement.ts';
import { absentHash, hashBytes, hashFile, withFile } from '../paths/files.ts';
import { isWithin, resolvePath } from '../paths/resolve-path.ts';
import { escapeLine, Refusal, withRefusalAsOutput } from '../refusal.ts';
import { riskOfPath } from '../risky-files.ts';
import { changeSchema, pathSchema } from './schema.ts';
import {
  type FileChanges,
  type FileState,
  kindAt,
  openFound,
  readIntent,
  type StagedFile,
} from './staged-file.ts';
import { type StagedView, viewOf } from './staged-view.ts';

const maxHashed = 256 * 1024 * 1024;

interface Source {
  readonly moved: FileState;
  /** Undefined for a folder. */
  readonly sizeBytes?: number;
}

export const fsRename = (confinement: Confinement, changes: FileChanges): ChangeTool => ({
  kind: 'change',
  name: 'fs_rename',
  description:
    'Renames or moves a file, or a folder with all that is in it. Folders that are missing above the new path are made. Replaces nothing: the new path must be free.',
  source: 'builtin',
  inputSchema: changeSchema(
    {
      path: pathSchema,
      new_path: { ...pathSchema, description: 'The whole new path, not a folder to put it in.' },
    },
    ['path', 'new_path'],
  ),
  propose: (args, context) =>
    withRefusalAsOutput(async (): Promise<Proposal> => {
      const view = await viewOf(context);
      const scope = { ...context, view };
      // Links are not followed: the named entries themselves are meant.
      const from = await confinement.resolveAllowed(String(args['path']), scope, 'write', false);
      const to = await confinement.resolveAllowed(String(args['new_path']), scope, 'write', false);
      const { moved, sizeBytes } = await readSource(confinement, from, context, view);
      if (to.path !== from.path && isWithin(from.path, to.path))
        throw new Refusal(`${to.shown} lies in ${from.shown}, which cannot be moved into itself.`);
      if ((await kindAt(confinement, to, context, view)) !== undefined)
        throw new Refusal(`${to.shown} exists already, and is not replaced.`);
      if (moved === 'folder') await requireMovable(confinement, from, context);
      const isFolder = moved === 'folder';
      const reason = riskOfPath(to.path, isFolder) ?? riskOfPath(from.path, isFolder);
      const size = sizeBytes === undefined ? 'the folder' : `the file (${sizeBytes} bytes)`;
      const payload: StagedFile = {
        path: to.path,
        write: context.grants.write,
        base: absentHash,
        change: { from: from.path, moved },
      };
      return {
        // The list of kinds is fixed; the new path is written.
        kind: 'file_write',
        intent: readIntent(args),
        summary: `Rename ${size} ${escapeLine(from.path)} to ${escapeLine(to.path)}.${reason === undefined ? '' : ` High risk: ${reason}.`}`,
        path: to.path,
        baseHash: absentHash,
        risk: reason === undefined ? 'medium' : 'high',
        payload,
      };
    }),
  apply: (payload, signal) => changes.apply(payload as StagedFile, signal),
  verify: (payload) => changes.verify(payload as StagedFile),
});

async function readSource(
  confinement: Confinement,
  allowed: AllowedPath,
  context: ToolContext,
  view: StagedView,
): Promise<Source> {
  const { shown } = allowed;
  const found = view.find(allowed.path);
  if (found.kind === 'folder') return { moved: 'folder' };
  if (found.kind === 'text') {
    const bytes = Buffer.from(await view.textOf(found));
    return { moved: hashBytes(bytes), sizeBytes: bytes.length };
  }
  const gone = `${shown}: there is no such file or folder${found.kind === 'absent' && found.reason !== undefined ? ` any more, ${found.reason}` : ''}.`;
  if (found.kind === 'absent') throw new Refusal(gone);
  const source = await openFound(
    confinement,
    { allowed, real: found.real },
    context,
    async (folder, name) => {
      const kind = name === '' ? undefined : await folder.kind(name);
      if (kind === 'link') throw new Refusal(`${shown} is a link; only files and folders can be renamed.`);
      if (kind === 'folder') {
        // Refuses the host's own folders.
        await (await folder.openFolder(name)).close();
        return { moved: 'folder' as const };
      }
      return await withFile(folder, name, async (file): Promise<Source> => {
        const { size } = await file.stat();
        if (size > maxHashed)
          throw new Refusal(
            `${shown} has ${size} bytes; files of more than ${maxHashed} are left to people.`,
          );
        return { moved: await hashFile(file, context.signal), sizeBytes: size };
      });
    },
  );
  if (!source) throw new Refusal(gone);
  return source;
}

/** A folder stays where grants, the working folder or the host's own data are in it. */
async function requireMovable(
  confinement: Confinement,
  { path, shown }: AllowedPath,
  { grants, cwd }: ToolContext,
): Promise<void> {
  if (await confinement.holdsForbidden(path))
    throw new Refusal(`${shown} holds what belongs to the host itself, so it stays where it is.`);
  const needed = [...grants.read, ...grants.write, ...(cwd === undefined ? [] : [cwd])];
  for (const one of needed) {
    const resolved = await resolvePath(one).catch(() => undefined);
    if (isWithin(path, one) || (resolved && isWithin(path, resolved.real)))
      throw new Refusal(
        `${shown} is, or holds, a folder that this agent works in (${escapeLine(basename(one))}), so it stays where it is.`,
      );
  }
}
