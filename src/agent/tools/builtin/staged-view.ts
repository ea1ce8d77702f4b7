/** Files and folders as an agent's staged changes would leave them: what its next calls see. */
import { basename, dirname, join, sep } from 'node:path';
import type { StagedFiles, ToolContext } from '../../tool.ts';
import type { PathView } from '../paths/confinement.ts';
import type { Entry } from '../paths/folder.ts';
import { escapeLine } from '../refusal.ts';
import type { StagedFile } from './staged-file.ts';

/** A staged change without its text. */
export interface StagedChange {
  /** Its place in the order of all changes. */
  readonly n: number;
  readonly id: string;
  readonly path: string;
  readonly what:
    | { readonly kind: 'write' | 'delete' | 'folder' }
    | { readonly kind: 'rename'; readonly from: string; readonly isFolder: boolean };
}

/** A folder that staged changes made, moved, or reach into. */
export interface ViewFolder {
  readonly kind: 'folder';
  /** Where its other entries lie on the disk; undefined for a new folder. */
  readonly real: string | undefined;
  readonly children: Map<string, ViewNode>;
}
export type ViewNode =
  | ViewFolder
  | { readonly kind: 'text'; readonly n: number }
  /** A renamed file, and where it still lies. */
  | { readonly kind: 'file'; readonly real: string }
  | { readonly kind: 'absent'; readonly reason?: string };
/** What a path leads to: something staged, or whatever lies at a path of the disk. */
export type Found = ViewNode | { readonly kind: 'real'; readonly real: string };

const namesOf = (path: string): string[] => path.split(sep).filter((name) => name !== '');

/** A tree of staged changes over the disk. Paths are real paths, without links. */
export class StagedView implements PathView {
  readonly #root: ViewFolder = { kind: 'folder', real: sep === '/' ? '/' : '', children: new Map() };
  readonly #staged: StagedFiles | undefined;

  constructor(staged?: StagedFiles) {
    this.#staged = staged;
  }

  /** Adds a change. One that has nothing to work on, since an earlier one was discarded, is left out. */
  add({ n, path, what }: Pick<StagedChange, 'n' | 'path' | 'what'>): void {
    if (what.kind === 'rename') this.#move(path, what);
    else if (what.kind === 'folder') this.#folderAt(namesOf(path));
    else if (what.kind === 'write') this.#set(path, { kind: 'text', n });
    else this.#set(path, { kind: 'absent', reason: 'its deletion is staged' });
  }

  #move(path: string, { from, isFolder }: { readonly from: string; readonly isFolder: boolean }): void {
    const found = this.find(from);
    if (found.kind === 'absent') return;
    this.#set(from, { kind: 'absent', reason: `its renaming to ${escapeLine(path)} is staged` });
    if (found.kind !== 'real') this.#set(path, found);
    else if (isFolder) this.#set(path, { kind: 'folder', real: found.real, children: new Map() });
    else this.#set(path, { kind: 'file', real: found.real });
  }

  find(path: string): Found {
    const names = namesOf(path);
    let node: ViewNode = this.#root;
    for (const [index, name] of names.entries()) {
      if (node.kind !== 'folder') return node.kind === 'absent' ? node : { kind: 'absent' };
      const child: ViewNode | undefined = node.children.get(name);
      if (!child)
        return node.real === undefined
          ? { kind: 'absent' }
          : { kind: 'real', real: join(node.real, ...names.slice(index)) };
      node = child;
    }
    return node;
  }

  isStaged(path: string): boolean {
    const found = this.find(path);
    if (found.kind === 'real') return found.real !== path;
    return found.kind !== 'absent' || found.reason !== undefined;
  }

  isUnmoved(folder: string): boolean {
    const found = this.find(folder);
    return (found.kind === 'real' || found.kind === 'folder') && found.real === folder;
  }

  isBelowFile(path: string): boolean {
    for (let at = dirname(path); at !== dirname(at); at = dirname(at)) {
      const { kind } = this.find(at);
      if (kind === 'text' || kind === 'file') return true;
    }
    return false;
  }

  async textOf({ n }: { readonly n: number }): Promise<string> {
    const payload = (await this.#staged?.payloadOf(n)) as StagedFile | undefined;
    return payload && 'contents' in payload.change ? payload.change.contents : '';
  }

  #set(path: string, node: ViewNode): void {
    this.#folderAt(namesOf(dirname(path))).children.set(basename(path), node);
  }

  #folderAt(names: readonly string[]): ViewFolder {
    let folder = this.#root;
    for (const name of names) {
      let child = folder.children.get(name);
      if (child?.kind !== 'folder') {
        const real = child || folder.real === undefined ? undefined : join(folder.real, name);
        child = { kind: 'folder', real, children: new Map() };
        folder.children.set(name, child);
      }
      folder = child;
    }
    return folder;
  }
}

/** The staged changes of a task or run, in their order. */
export async function readStagedChanges(staged: StagedFiles): Promise<readonly StagedChange[]> {
  const changes: StagedChange[] = [];
  for (const { n, id, tool, path, isDeleted } of await staged.list()) {
    let what: StagedChange['what'] = { kind: isDeleted ? 'delete' : 'write' };
    if (tool === 'fs_mkdir') what = { kind: 'folder' };
    else if (tool === 'fs_rename') {
      const { change } = (await staged.payloadOf(n)) as StagedFile;
      if ('from' in change) what = { kind: 'rename', from: change.from, isFolder: change.moved === 'folder' };
    }
    changes.push({ n, id, path, what });
  }
  return changes;
}

export async function viewOf({ staged }: Pick<ToolContext, 'staged'>): Promise<StagedView> {
  const view = new StagedView(staged);
  if (staged) for (const change of await readStagedChanges(staged)) view.add(change);
  return view;
}

/** The entries of a folder, without those that are deleted, and with those that are new. */
export function mergeStaged(entries: readonly Entry[], folder: ViewFolder | undefined): readonly Entry[] {
  if (!folder || folder.children.size === 0) return entries;
  const merged = new Map(entries.map((entry) => [entry.name ?? Symbol(entry.shown), entry]));
  for (const [name, child] of folder.children) {
    if (child.kind === 'absent') merged.delete(name);
    else if (!merged.has(name) || !isInPlace(folder, name, child))
      merged.set(name, { name, shown: escapeLine(name), kind: child.kind === 'folder' ? 'folder' : 'file' });
  }
  return [...merged.values()].toSorted((a, b) => (a.shown < b.shown ? -1 : 1));
}

/** Whether an entry of a folder is still what the disk has there. */
export const isInPlace = ({ real }: ViewFolder, name: string, child: ViewNode | undefined): boolean =>
  child === undefined || (child.kind === 'folder' && real !== undefined && child.real === join(real, name));
