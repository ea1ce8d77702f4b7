import type { ReadTool, ToolOutput } from '../../tool.ts';
import { type Confinement, undisturbed } from '../paths/confinement.ts';
import { type Folder, Swapped } from '../paths/folder.ts';
import { answering, codeOf, Refusal } from '../refusal.ts';
import { aNumber, aPath, anObject } from './schema.ts';

const mostDepth = 8;
const mostEntries = 1000;
/** Maximum entries read of one folder; further ones are not listed. */
const mostRead = 10_000;

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
  inputSchema: anObject(
    {
      path: aPath,
      depth: aNumber(1, mostDepth, 'Levels of folders to show; default 1.'),
      limit: aNumber(1, mostEntries, 'Entries at most; default 200.'),
    },
    ['path'],
  ),
  run: (args, context) =>
    answering(async (): Promise<ToolOutput> => {
      const { path: argument = '.', depth = 1, limit = 200 } = args as Args;
      const allowed = await confinement.allowed(argument, context, 'read');
      const listing: Listing = { lines: [], limit, truncated: false, signal: context.signal };
      await undisturbed(allowed.shown, async () => {
        listing.lines.length = 0;
        let folder: Folder;
        try {
          folder = await confinement.open(allowed.path);
        } catch (error) {
          if (error instanceof Swapped && (await isFile(confinement, allowed.path)))
            throw new Refusal(`${allowed.shown} is no folder; fs_read reads files.`, { cause: error });
          throw error;
        }
        try {
          await list(folder, '', depth, listing);
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

async function list(folder: Folder, prefix: string, depth: number, listing: Listing): Promise<void> {
  listing.signal.throwIfAborted();
  const { entries, more } = await folder.entries(mostRead);
  if (more) listing.truncated = true;
  for (const { shown, name, kind } of entries) {
    if (listing.lines.length === listing.limit) {
      listing.truncated = true;
      return;
    }
    const line = prefix + shown;
    if (kind === 'folder') listing.lines.push(`${line}/`);
    else if (kind === 'link' && name !== undefined)
      listing.lines.push(`${line} -> ${await target(folder, name)}`);
    else listing.lines.push(kind === 'other' ? `${line} [device, pipe or socket]` : line);
    if (kind === 'folder' && depth > 1 && name !== undefined)
      await within(folder, name, (inner) => list(inner, `${line}/`, depth - 1, listing));
  }
}

const target = async (folder: Folder, name: string): Promise<string> => {
  try {
    return await folder.linkTarget(name);
  } catch {
    return '?';
  }
};

/** Visits a subfolder. One that is gone, unreadable or forbidden is skipped. */
export async function within(
  folder: Folder,
  name: string,
  visit: (inner: Folder) => Promise<void>,
): Promise<void> {
  let inner: Folder;
  try {
    inner = await folder.folder(name);
  } catch (error) {
    if (error instanceof Swapped || error instanceof Refusal || codeOf(error) !== undefined) return;
    throw error;
  }
  try {
    await visit(inner);
  } catch (error) {
    if (codeOf(error) === undefined) throw error;
  } finally {
    await inner.close();
  }
}
