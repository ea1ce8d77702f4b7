import type { ReadTool, ToolOutput } from '../../tool.ts';
import { type Confinement, retryWhenSwapped } from '../paths/confinement.ts';
import { type Folder, PathSwapped } from '../paths/folder.ts';
import { withRefusalAsOutput, systemErrorCode, Refusal } from '../refusal.ts';
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
      const listing: Listing = { lines: [], limit, truncated: false, signal: context.signal };
      await retryWhenSwapped(allowed.shown, async () => {
        listing.lines.length = 0;
        let folder: Folder;
        try {
          folder = await confinement.open(allowed.path);
        } catch (error) {
          if (error instanceof PathSwapped && (await isFile(confinement, allowed.path)))
            throw new Refusal(`${allowed.shown} is no folder; fs_read reads files.`, { cause: error });
          throw error;
        }
        try {
          await listFolder(folder, '', depth, listing);
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

async function listFolder(folder: Folder, prefix: string, depth: number, listing: Listing): Promise<void> {
  listing.signal.throwIfAborted();
  const { entries, more } = await folder.entries(maxRead);
  if (more) listing.truncated = true;
  for (const { shown, name, kind } of entries) {
    if (listing.lines.length === listing.limit) {
      listing.truncated = true;
      return;
    }
    const line = prefix + shown;
    if (kind === 'folder') listing.lines.push(`${line}/`);
    else if (kind === 'link' && name !== undefined)
      listing.lines.push(`${line} -> ${await readTarget(folder, name)}`);
    else listing.lines.push(kind === 'other' ? `${line} [device, pipe or socket]` : line);
    if (kind === 'folder' && depth > 1 && name !== undefined)
      await visitSubfolder(folder, name, (inner) => listFolder(inner, `${line}/`, depth - 1, listing));
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
