/** File changes that are applied in their order, or not at all. */
import { lstat } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import { AgentError } from '../../errors.ts';
import type { ChangeSet, ToolOutput } from '../../tool.ts';
import type { Confinement } from '../paths/confinement.ts';
import {
  absentHash,
  hashBytes,
  readWholeFile,
  removeEmptyFolder,
  removeFile,
  replaceFile,
  withFile,
} from '../paths/files.ts';
import type { Folder } from '../paths/folder.ts';
import { baseMovedError, okOutput } from '../refusal.ts';
import { describeChange, type FileChanges, type StagedFile } from './staged-file.ts';

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
      const made = await this.#countMade(all, resumes);
      const done: Before[] = [];
      try {
        for (const [index, staged] of all.entries()) {
          const skipped = made.get(staged.path) ?? 0;
          if (skipped > 0) {
            made.set(staged.path, skipped - 1);
            continue;
          }
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

  /**
   * Checks that each change finds the base that it was proposed for, before any is made.
   * @returns for each path how many of its changes were made before a crash
   */
  async #countMade(all: readonly StagedFile[], resumes: boolean): Promise<Map<string, number>> {
    const made = new Map<string, number>();
    for (const [path, changes] of Map.groupBy(all, (one) => one.path)) {
      const chain = [changes[0]?.base ?? absentHash, ...changes.map(hashAfter)];
      if (changes.some(({ base }, index) => base !== chain[index]))
        throw new AgentError(
          'conflict',
          'not_a_set',
          `Several of these changes of ${path} were proposed for the same text, so none of the changes was made. Approve one of them, and discard the others.`,
        );
      const current = await this.#changes.currentHash(changes[0] as StagedFile);
      const at = current === undefined ? -1 : resumes ? chain.lastIndexOf(current) : chain.indexOf(current);
      if (at < 0 || (at > 0 && !resumes))
        throw baseMovedError(
          `${path} is not what it was when its changes were proposed, so none of the changes was made.`,
        );
      made.set(path, at);
    }
    return made;
  }

  async #readBefore(staged: StagedFile, index: number): Promise<Before> {
    const { path, write, base } = staged;
    const scope = { grants: { read: [], write: [...write] }, cwd: undefined };
    const allowed = await this.#confinement.resolveAllowed(path, scope, 'write', false);
    const created: string[] = [];
    for (let at = path, left = allowed.missing.length - 1; left > 0; left--) created.push((at = dirname(at)));
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
      const after = hashAfter(staged);
      await this.#inParent(staged, staged.path, async (folder, name) => {
        if (file) {
          await replaceFile(folder, name, file.bytes, after, never);
          if (after === absentHash) await withFile(folder, name, (handle) => handle.chmod(file.mode & 0o777));
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

const hashAfter = ({ change }: StagedFile) =>
  'contents' in change ? hashBytes(Buffer.from(change.contents)) : absentHash;
