/** File changes that are applied in their order, or not at all. */
import { lstat } from 'node:fs/promises';
import { basename, dirname, join, relative } from 'node:path';
import { AgentError } from '../../errors.ts';
import type { ChangeSet, StagedFiles, ToolOutput } from '../../tool.ts';
import type { Confinement } from '../paths/confinement.ts';
import {
  absentHash,
  readWholeFile,
  removeEmptyFolder,
  removeFile,
  replaceFile,
  withFile,
} from '../paths/files.ts';
import type { Folder } from '../paths/folder.ts';
import { baseMovedError, okOutput } from '../refusal.ts';
import { isWithin } from '../paths/resolve-path.ts';
import {
  describeChange,
  type FileChanges,
  type FileState,
  stateAfter,
  stateBefore,
  type StagedFile,
} from './staged-file.ts';
import { readStagedChanges, type StagedChange, StagedView } from './staged-view.ts';

/** Bytes of a file that are kept in memory until the last change is made. */
const maxKeptBytes = 16 * 1024 * 1024;

/** What a file was before a change. */
interface Before {
  readonly staged: StagedFile;
  readonly file: { readonly bytes: Buffer; readonly mode: number } | undefined;
  /** Folders that the change created, innermost first. */
  readonly created: readonly string[];
}

const never = new AbortController().signal;

export class FileChangeSet implements ChangeSet {
  readonly #confinement: Confinement;
  readonly #changes: FileChanges;

  constructor(confinement: Confinement, changes: FileChanges) {
    this.#confinement = confinement;
    this.#changes = changes;
  }

  async apply(payloads: readonly unknown[], resumes: boolean): Promise<ToolOutput[]> {
    const all = payloads as readonly StagedFile[];
    return await this.#changes.exclusively(async () => {
      if (resumes) await this.#finishMoves(all);
      const made = await this.#countMade(all, resumes);
      const done: Before[] = [];
      try {
        for (const [index, staged] of all.entries()) {
          if (index < made) continue;
          done.push(await this.#readBefore(staged, index));
          const { ok, output } = await this.#changes.applyNow(staged, never);
          if (!ok) throw new AgentError('conflict', 'apply_failed', output);
        }
      } catch (error) {
        // The last one was not made.
        await this.#undo(done.slice(0, -1), done.at(-1));
        throw error;
      }
      return all.map((staged) => okOutput(`${describeChange(staged)} ${staged.path}.`));
    });
  }

  async buildsOn(payload: unknown, n: number, staged: StagedFiles): Promise<string | undefined> {
    const { path, change } = payload as StagedFile;
    const ends = 'from' in change ? [change.from, path] : [path];
    const areRelated = (one: string, other: string) => isWithin(one, other) || isWithin(other, one);
    const earlier = (await readStagedChanges(staged)).filter((one) => one.n < n);
    return earlier.find(({ path: other, what }) => {
      const others = what.kind === 'rename' ? [what.from, other] : [other];
      // Other changes of one path are compared by their hashes.
      if (ends.length + others.length === 2) return false;
      return ends.some((end) => others.some((one) => areRelated(end, one)));
    })?.id;
  }

  /** A crash between the two steps of renaming a file left both names. */
  async #finishMoves(all: readonly StagedFile[]): Promise<void> {
    for (const staged of all)
      if (await this.#changes.isHalfMoved(staged)) await this.#changes.applyNow(staged, never);
  }

  /**
   * Checks that each change finds the base that it was proposed for, before any is made.
   * @returns how many were made before a crash
   */
  async #countMade(all: readonly StagedFile[], resumes: boolean): Promise<number> {
    const read = new Map<string, Promise<FileState | undefined>>();
    const stateAt: ReadState = (path, write) => {
      const state = read.get(path) ?? this.#changes.stateAt(path, write);
      read.set(path, state);
      return state;
    };
    let different: string | undefined;
    for (let made = resumes ? all.length : 0; made >= 0; made--) {
      different =
        (await findUnmade(all.slice(0, made), stateAt)) ?? (await findUnfit(all.slice(made), stateAt));
      if (different === undefined) return made;
    }
    const twice = all.find(({ path, base }, index) =>
      all.slice(0, index).some((earlier) => earlier.path === path && earlier.base === base),
    );
    if (twice)
      throw new AgentError(
        'conflict',
        'not_a_set',
        `Several of these changes of ${twice.path} were proposed for the same text, so none of the changes was made. Approve one of them, and discard the others.`,
      );
    throw baseMovedError(
      `${different} is not what it was when its changes were proposed, so none of the changes was made.`,
    );
  }

  async #readBefore(staged: StagedFile, index: number): Promise<Before> {
    const { path, write, base } = staged;
    const scope = { grants: { read: [], write: [...write] }, cwd: undefined };
    const allowed = await this.#confinement.resolveAllowed(path, scope, 'write', false);
    const makesFolder = 'make' in staged.change;
    const created: string[] = [];
    let at = makesFolder ? path : dirname(path);
    for (let left = allowed.missing.length - (makesFolder ? 0 : 1); left > 0; left--) {
      created.push(at);
      at = dirname(at);
    }
    if (base === absentHash || ('remove' in staged.change && staged.change.remove === 'empty_folder'))
      return { staged, file: undefined, created };
    return await this.#inParent(staged, path, async (folder, name) => {
      const { mode, size } = await lstat(folder.entryPath(name));
      if (size > maxKeptBytes)
        throw new AgentError(
          'conflict',
          'apply_failed',
          `Nothing was changed: ${path} has ${size} bytes. Approve change ${index + 1} alone: in a set, files have at most ${maxKeptBytes} bytes.`,
        );
      const bytes = await withFile(folder, name, (file) => readWholeFile(file, path, maxKeptBytes, never));
      return { staged, file: bytes && { bytes, mode }, created: [] };
    });
  }

  /** Takes back what was made, the last change first. @param last the change that failed, and made no file */
  async #undo(done: readonly Before[], last: Before | undefined): Promise<void> {
    if (last) await this.#removeFolders(last);
    for (const before of done.toReversed()) {
      const { staged, file } = before;
      const { path, change } = staged;
      const after = stateAfter(staged);
      if ('from' in change)
        await this.#changes.applyNow(
          { ...staged, path: change.from, change: { ...change, from: path } },
          never,
        );
      else if (!('make' in change))
        await this.#inParent(staged, path, async (folder, name) => {
          if (file) {
            await replaceFile(folder, name, file.bytes, after, never);
            if (after === absentHash)
              await withFile(folder, name, (handle) => handle.chmod(file.mode & 0o777));
          } else if (after === absentHash) await (await folder.openOrCreateFolder(name)).close();
          else await removeFile(folder, name, after, never);
        });
      await this.#removeFolders(before);
    }
  }

  /** Removes the folders that a change created, where nothing else is in them. */
  async #removeFolders({ staged, created }: Before): Promise<void> {
    for (const path of created) await this.#inParent(staged, path, removeEmptyFolder).catch(() => undefined);
  }

  async #inParent<Answer>(
    { write }: StagedFile,
    path: string,
    use: (folder: Folder, name: string) => Promise<Answer>,
  ): Promise<Answer> {
    const scope = { grants: { read: [], write: [...write] }, cwd: undefined };
    const allowed = await this.#confinement.resolveAllowed(path, scope, 'write', false);
    const folder = await this.#confinement.openParent(allowed);
    try {
      return await use(folder, basename(path));
    } finally {
      await folder.close();
    }
  }
}

type ReadState = (path: string, write: readonly string[]) => Promise<FileState | undefined>;

/** The first path where changes that were made have not left what they leave. */
async function findUnmade(made: readonly StagedFile[], stateAt: ReadState): Promise<string | undefined> {
  const left = new Map<string, { readonly state: FileState; readonly write: readonly string[] }>();
  const takeBelow = (folder: string) => {
    const below = [...left].filter(([path]) => isWithin(folder, path));
    for (const [path] of below) left.delete(path);
    return below;
  };
  for (const staged of made) {
    const { path, write, change } = staged;
    const moved = 'from' in change ? takeBelow(change.from) : [];
    takeBelow(path);
    for (const above of left.keys()) if (isWithin(above, path)) left.set(above, { state: 'folder', write });
    if ('from' in change) {
      for (const [old, entry] of moved) left.set(join(path, relative(change.from, old)), entry);
      left.set(change.from, { state: absentHash, write });
    }
    left.set(path, { state: stateAfter(staged), write });
    const parent = dirname(path);
    if (!('remove' in change) && write.some((granted) => isWithin(granted, parent)))
      left.set(parent, { state: 'folder', write });
  }
  for (const [path, { state, write }] of left) if ((await stateAt(path, write)) !== state) return path;
  return undefined;
}

/** The first path where a change does not find what it was proposed for, after the changes before it. */
async function findUnfit(changes: readonly StagedFile[], stateAt: ReadState): Promise<string | undefined> {
  const view = new StagedView();
  const stateIn = async (path: string, write: readonly string[]): Promise<FileState | undefined> => {
    const found = view.find(path);
    if (found.kind === 'absent') return absentHash;
    if (found.kind === 'folder') return 'folder';
    const text = found.kind === 'text' ? changes[found.n] : undefined;
    return text ? stateAfter(text) : await stateAt('real' in found ? found.real : path, write);
  };
  for (const [n, staged] of changes.entries()) {
    const { path, write, change } = staged;
    if ('from' in change && (await stateIn(change.from, write)) !== change.moved) return change.from;
    const state = await stateIn(path, write);
    const isMadeAlready = 'make' in change && state === 'folder';
    if (state !== stateBefore(staged) && !isMadeAlready) return path;
    view.add({ n, path, what: toStagedKind(change) });
  }
  return undefined;
}

function toStagedKind(change: StagedFile['change']): StagedChange['what'] {
  if ('from' in change) return { kind: 'rename', from: change.from, isFolder: change.moved === 'folder' };
  if ('make' in change) return { kind: 'folder' };
  return { kind: 'remove' in change ? 'delete' : 'write' };
}
