/** Files and folders as an agent's staged changes would leave them: what its next calls see. */
import { sep } from 'node:path';
import type { StagedFiles, ToolContext } from '../../tool.ts';
import type { Entry } from '../paths/folder.ts';
import { escapeLine } from '../refusal.ts';
import type { StagedFile } from './staged-file.ts';

/** What is staged for a path: a text, or that nothing is there; undefined when nothing is staged. */
export async function readStaged(
  { staged }: Pick<ToolContext, 'staged'>,
  path: string,
): Promise<{ readonly text: string } | 'deleted' | undefined> {
  const payload = (await staged?.payloadOf(path)) as StagedFile | undefined;
  if (payload === undefined) return undefined;
  return 'contents' in payload.change ? { text: payload.change.contents } : 'deleted';
}

export type StagedPaths = Awaited<ReturnType<StagedFiles['listBelow']>>;

/** The entries of a folder, without those that are deleted, and with those that are new. */
export function mergeStaged(
  entries: readonly Entry[],
  folder: string,
  staged: StagedPaths,
): readonly Entry[] {
  const prefix = folder.endsWith(sep) ? folder : `${folder}${sep}`;
  const merged = new Map(entries.map((entry) => [entry.name ?? Symbol(entry.shown), entry]));
  for (const { path, isDeleted } of staged) {
    if (!path.startsWith(prefix)) continue;
    const [name = '', ...below] = path.slice(prefix.length).split(sep);
    if (isDeleted && below.length === 0) merged.delete(name);
    else if (!isDeleted && !merged.has(name))
      merged.set(name, { name, shown: escapeLine(name), kind: below.length === 0 ? 'file' : 'folder' });
  }
  if (merged.size === entries.length && staged.length === 0) return entries;
  return [...merged.values()].toSorted((a, b) => (a.shown < b.shown ? -1 : 1));
}
