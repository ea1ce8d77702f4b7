import type { ReadTool, ToolOutput } from '../../tool.ts';
import type { Confinement } from '../paths/confinement.ts';
import type { Folder } from '../paths/folder.ts';
import { withRefusalAsOutput, Refusal } from '../refusal.ts';
import { viewOf } from './staged-view.ts';
import { goneRefusal, readEntries, type SeenFolder, ViewReader } from './view-reader.ts';
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
      const view = await viewOf(context);
      const allowed = await confinement.resolveAllowed(argument, { ...context, view }, 'read');
      const found = view.find(allowed.path);
      if (found.kind === 'absent') throw goneRefusal(allowed.shown, found.reason);
      if (found.kind === 'text' || found.kind === 'file') throw noFolderRefusal(allowed.shown);
      const reader = new ViewReader(confinement, context);
      const listing: Listing = { lines: [], limit, truncated: false, reader, signal: context.signal };
      const staged = found.kind === 'folder' ? found : undefined;
      await reader.openFolder(allowed, found.real, async (folder) => {
        listing.lines.length = 0;
        if (!folder && !staged) throw goneRefusal(allowed.shown);
        await listFolder({ folder, staged }, { prefix: '', depth }, listing);
      });
      const { lines, truncated } = listing;
      const rest = truncated ? `\n[only the first ${lines.length} entries]` : '';
      return { ok: true, output: lines.length === 0 ? '[empty folder]' : lines.join('\n') + rest, truncated };
    }),
});

const noFolderRefusal = (shown: string) => new Refusal(`${shown} is no folder; fs_read reads files.`);

interface Listing {
  readonly lines: string[];
  readonly limit: number;
  readonly reader: ViewReader;
  readonly signal: AbortSignal;
  truncated: boolean;
}

/** A folder on the way down. */
interface Level {
  /** Names of the folders above, as they are shown. */
  readonly prefix: string;
  readonly depth: number;
}

async function listFolder(seen: SeenFolder, { prefix, depth }: Level, listing: Listing): Promise<void> {
  listing.signal.throwIfAborted();
  const { entries, more } = await readEntries(seen, maxRead);
  if (more) listing.truncated = true;
  for (const { shown, name, kind } of entries) {
    if (listing.lines.length === listing.limit) {
      listing.truncated = true;
      return;
    }
    const line = prefix + shown;
    if (kind === 'folder') listing.lines.push(`${line}/`);
    else if (kind === 'link' && seen.folder && name !== undefined)
      listing.lines.push(`${line} -> ${await readTarget(seen.folder, name)}`);
    else listing.lines.push(kind === 'other' ? `${line} [device, pipe or socket]` : line);
    if (kind !== 'folder' || depth === 1 || name === undefined) continue;
    await listing.reader.visitSubfolder(seen, name, (inner) =>
      listFolder(inner, { prefix: `${line}/`, depth: depth - 1 }, listing),
    );
  }
}

const readTarget = async (folder: Folder, name: string): Promise<string> => {
  try {
    return await folder.linkTarget(name);
  } catch {
    return '?';
  }
};
