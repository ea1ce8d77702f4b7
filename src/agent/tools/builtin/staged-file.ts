import { basename } from 'node:path';
import type { Proposal, ToolContext, ToolOutput } from '../../tool.ts';
import { unifiedDiff } from '../diff.ts';
import { type Allowed, type Confinement, undisturbed } from '../paths/confinement.ts';
import { type Entry, Swapped } from '../paths/folder.ts';
import {
  absent,
  type BaseHash,
  hashOf,
  Moved,
  removeEmptyFolder,
  removeFile,
  replaceFile,
  hashOfFile,
  textOf,
  wholeFile,
  withFile,
} from '../paths/files.ts';
import { baseMoved, codeOf, fileRefusal, onOneLine, Refusal, refused, said } from '../refusal.ts';
import { unseenNote } from '../unseen.ts';

/** Maximum bytes of a text that is written or edited, before and after. */
export const mostBytes = 1024 * 1024;

/** Complete payload of a file change, from which any process can apply it. */
export interface StagedFile {
  /** Real path, without links at the time of the proposal. */
  readonly path: string;
  /** Write grants at the time of the proposal. */
  readonly write: readonly string[];
  readonly base: BaseHash;
  readonly change: { readonly contents: string } | { readonly remove: 'file' | 'empty_folder' };
}

/** Reads the text of a file; undefined when there is none. @throws Refusal when it is not text, or too large */
export async function textAt(
  confinement: Confinement,
  allowed: Allowed,
  signal: AbortSignal,
): Promise<{ text: string; base: BaseHash } | undefined> {
  if (allowed.missing.length > 0) return undefined;
  return await undisturbed(allowed.shown, async () => {
    const folder = await confinement.openParent(allowed);
    try {
      return await withFile(folder, basename(allowed.path), async (file) => {
        const bytes = await wholeFile(file, allowed.shown, mostBytes, signal);
        const text = textOf(bytes);
        if (text === undefined)
          throw new Refusal(`${allowed.shown} is binary (or no UTF-8 text); only text files can be changed.`);
        return { text, base: hashOf(bytes) };
      });
    } finally {
      await folder.close();
    }
  });
}

/** Creates the proposal to write a text to a file. */
export function proposedText(
  {
    allowed,
    before,
    after,
  }: { allowed: Allowed; before: { text: string; base: BaseHash } | undefined; after: string },
  args: { readonly intent?: unknown },
  { grants }: ToolContext,
): Proposal {
  const bytes = Buffer.byteLength(after);
  if (bytes > mostBytes)
    throw new Refusal(`The text would have ${bytes} bytes; at most ${mostBytes} can be written at once.`);
  if (!after.isWellFormed() || after.includes('\0'))
    throw new Refusal('The text holds NUL characters or half surrogate pairs, which no text file may hold.');
  if (before?.text === after) throw new Refusal(`${allowed.shown} holds exactly this text already.`);
  const base = before?.base ?? absent;
  const payload: StagedFile = {
    path: allowed.path,
    write: grants.write,
    base,
    change: { contents: after },
  };
  return {
    kind: 'file_write',
    intent: intentOf(args),
    summary: `${before ? 'Replace' : 'Create'} ${onOneLine(allowed.path)} (${bytes} bytes).${unseenNote(before?.text ?? '', after)}`,
    path: allowed.path,
    diff: unifiedDiff(allowed.path, before?.text, after),
    baseHash: base,
    risk: before ? 'medium' : 'low',
    payload,
  };
}

/** The intent on one line, so that a model cannot imitate texts of the host. */
export const intentOf = ({ intent }: { readonly intent?: unknown }): string =>
  typeof intent === 'string' ? onOneLine(intent.replaceAll(/\s+/g, ' ').trim()) : '';

/** Applies file changes one at a time, so that of two changes with the same base only the first succeeds. */
export class FileChanges {
  readonly #confinement: Confinement;
  #last: Promise<unknown> = Promise.resolve();

  constructor(confinement: Confinement) {
    this.#confinement = confinement;
  }

  /** @throws AgentError `base_moved` */
  async apply(staged: StagedFile, signal: AbortSignal): Promise<ToolOutput> {
    const mine = this.#last.then(() => this.#apply(staged, signal));
    this.#last = mine.catch(() => undefined);
    return await mine;
  }

  /** Compares the file with the change. Checks the grants again, so that it discloses nothing about a closed path. */
  async verify({ path, write, base, change }: StagedFile): Promise<'applied' | 'not_applied' | 'unknown'> {
    const scope = { grants: { read: [], write: [...write] }, cwd: undefined };
    const allowed = await this.#confinement.allowed(path, scope, 'write', false);
    if (allowed.path !== path) return 'unknown';
    const holds = await this.#holds(allowed, 'remove' in change && change.remove === 'empty_folder');
    const wanted = 'contents' in change ? hashOf(Buffer.from(change.contents)) : absent;
    if (holds === wanted) return 'applied';
    return holds === base ? 'not_applied' : 'unknown';
  }

  /** Hash of the current content; undefined when a folder was replaced. @throws when a file was replaced */
  async #holds(allowed: Allowed, folder: boolean): Promise<BaseHash | undefined> {
    if (allowed.missing.length > 0) return absent;
    const parent = await this.#confinement.openParent(allowed);
    try {
      const name = basename(allowed.path);
      if (folder) return heldFolder(await parent.kind(name));
      const never = new AbortController().signal;
      return (await withFile(parent, name, (file) => hashOfFile(file, never))) ?? absent;
    } finally {
      await parent.close();
    }
  }

  async #apply(staged: StagedFile, signal: AbortSignal): Promise<ToolOutput> {
    const { path, write, base, change } = staged;
    try {
      const scope = { grants: { read: [], write: [...write] }, cwd: undefined };
      const allowed = await this.#confinement.allowed(path, scope, 'write', false);
      if (allowed.path !== path) throw new Moved('a link is in the way');
      const making = 'contents' in change && base === absent;
      const folder = await this.#confinement.openParent(allowed, making);
      try {
        const name = basename(path);
        if ('contents' in change) await replaceFile(folder, name, Buffer.from(change.contents), base, signal);
        else if (change.remove === 'file') await removeFile(folder, name, base, signal);
        else await removeEmptyFolder(folder, name);
      } finally {
        await folder.close();
      }
    } catch (error) {
      throwOrTell(error, path);
      return refused((fileRefusal(error, path) as Error).message);
    }
    return said(`${done(staged)} ${path}.`);
  }
}

/** Hash of a folder, which is always proposed as empty. */
function heldFolder(kind: Entry['kind'] | undefined): BaseHash | undefined {
  if (kind === undefined) return absent;
  return kind === 'folder' ? hashOf(Buffer.alloc(0)) : undefined;
}

const done = ({ base, change }: StagedFile): string => {
  if ('remove' in change) return 'Deleted';
  return base === absent ? 'Created' : 'Replaced';
};

/** Rethrows an error; returns for file system errors after which the change may succeed later, such as a full disk. */
function throwOrTell(error: unknown, path: string): void {
  const gone = ['ENOENT', 'ENOTDIR', 'EISDIR', 'ELOOP'].includes(codeOf(error) ?? '');
  if (error instanceof Moved || error instanceof Refusal || error instanceof Swapped || gone)
    throw baseMoved(
      `${path} is not what it was when this change was proposed, so nothing was done. Discard the change, and have it made again.`,
      { cause: error },
    );
  if (!(fileRefusal(error, path) instanceof Refusal)) throw error;
}
