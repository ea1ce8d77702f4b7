import { join } from 'node:path';
import type { ReadTool, ToolOutput } from '../../tool.ts';
import { type Confinement, retryWhenSwapped } from '../paths/confinement.ts';
import { type Folder, PathSwapped } from '../paths/folder.ts';
import { withRefusalAsOutput, systemErrorCode, Refusal } from '../refusal.ts';
import { mergeStaged, readStaged, type StagedPaths } from './staged-view.ts';
import { integerSchema, pathSchema, objectSchema } from './schema.ts';

const maxDepth = 8;
const maxEntries = 1000;
/** Maximum entries read of one folder; further ones are not listed. */
const maxRead = 10_000;

interface Args {
  readonly path?: string;
  readonly depth?: number;
  readonly limit?: number;
}

export const fsList = (confinement: Confinement): ReadTool => ({
  kind: 'read',
  name: 'fs_list',
  description: 'Lists a folder: a line an entry, folders end in `/`, links show where they point.',
  source: 'builtin',
  inputSchema: objectSchema(
    {
      path: pathSchema,
      depth: integerSchema(1, maxDepth, 'Levels of folders to show; default 1.'),
      limit: integerSchema(1, maxEntries, 'Entries at most; default 200.'),
    },
    ['path'],
  ),
  run: (args, context) =>
    withRefusalAsOutput(async (): Promise<ToolOutput> => {
      const { path: argument = '.', depth = 1, limit = 200 } = args as Args;
      const allowed = await confinement.resolveAllowed(argument, context, 'read');
      const stagedFile = await readStaged(context, allowed.path);
      if (stagedFile !== undefined)
        throw new Refusal(
          stagedFile === 'deleted'
            ? `${allowed.shown}: there is no such file or folder any more, its deletion is staged.`
            : `${allowed.shown} is no folder; fs_read reads files.`,
        );
      const staged = (await context.staged?.listBelow(allowed.path)) ?? [];
      const listing: Listing = { lines: [], limit, truncated: false, staged, signal: context.signal };
      await retryWhenSwapped(allowed.shown, async () => {
        listing.lines.length = 0;
        if (allowed.missing.length > 0) {
          await listFolder(undefined, { path: allowed.path, prefix: '', depth }, listing);
          return;
        }
        let folder: Folder;
        try {
          folder = await confinement.open(allowed.path);
        } catch (error) {
          if (error instanceof PathSwapped && (await isFile(confinement, allowed.path)))
            throw new Refusal(`${allowed.shown} is no folder; fs_read reads files.`, { cause: error });
          throw error;
        }
        try {
          await listFolder(folder, { path: allowed.path, prefix: '', depth }, listing);
        } finally {
          await folder.close();
        }
      });
      const { lines, truncated } = listing;
      const rest = truncated ? `\n[only the first ${lines.length} entries]` : '';
      return { ok: true, output: lines.length === 0 ? '[empty folder]' : lines.join('\n') + rest, truncated };
    }),
});

interface Listing {
  readonly lines: string[];
  readonly limit: number;
  readonly staged: StagedPaths;
  readonly signal: AbortSignal;
  truncated: boolean;
}

async function isFile(confinement: Confinement, path: string): Promise<boolean> {
  const at = path.lastIndexOf('/');
  const folder = await confinement.open(path.slice(0, at) || '/');
  try {
    const kind = await folder.kind(path.slice(at + 1));
    return kind !== undefined && kind !== 'folder' && kind !== 'link';
  } finally {
    await folder.close();
  }
}

/** A folder on the way down. */
export interface Level {
  readonly path: string;
  /** Names of the folders above, as they are shown. */
  readonly prefix: string;
  readonly depth: number;
}

/** @param folder undefined when it is only staged */
async function listFolder(
  folder: Folder | undefined,
  { path, prefix, depth }: Level,
  listing: Listing,
): Promise<void> {
  listing.signal.throwIfAborted();
  const { entries, more } = (await folder?.entries(maxRead)) ?? { entries: [], more: false };
  if (more) listing.truncated = true;
  const real = new Set(entries.map(({ name }) => name));
  for (const { shown, name, kind } of mergeStaged(entries, path, listing.staged)) {
    if (listing.lines.length === listing.limit) {
      listing.truncated = true;
      return;
    }
    const line = prefix + shown;
    if (kind === 'folder') listing.lines.push(`${line}/`);
    else if (kind === 'link' && folder && name !== undefined)
      listing.lines.push(`${line} -> ${await readTarget(folder, name)}`);
    else listing.lines.push(kind === 'other' ? `${line} [device, pipe or socket]` : line);
    if (kind !== 'folder' || depth === 1 || name === undefined) continue;
    const level = { path: join(path, name), prefix: `${line}/`, depth: depth - 1 };
    if (folder && real.has(name))
      await visitSubfolder(folder, name, (inner) => listFolder(inner, level, listing));
    else await listFolder(undefined, level, listing);
  }
}

const readTarget = async (folder: Folder, name: string): Promise<string> => {
  try {
    return await folder.linkTarget(name);
  } catch {
    return '?';
  }
};

/** Visits a subfolder. One that is gone, unreadable or forbidden is skipped. */
export async function visitSubfolder(
  folder: Folder,
  name: string,
  visit: (inner: Folder) => Promise<void>,
): Promise<void> {
  let inner: Folder;
  try {
    inner = await folder.openFolder(name);
  } catch (error) {
    if (error instanceof PathSwapped || error instanceof Refusal || systemErrorCode(error) !== undefined)
      return;
    throw error;
  }
  try {
    await visit(inner);
  } catch (error) {
    if (systemErrorCode(error) === undefined) throw error;
  } finally {
    await inner.close();
  }
}
