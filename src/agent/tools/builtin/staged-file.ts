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

/** Of texts that are written or edited, before and after. */
export const mostBytes = 1024 * 1024;

/** A change of one file, whole: it is applied from this alone, also by another process. */
export interface StagedFile {
  /** Without links when it was proposed. */
  readonly path: string;
  /** Grants for writing that it was proposed under. */
  readonly write: readonly string[];
  readonly base: BaseHash;
  readonly change: { readonly contents: string } | { readonly remove: 'file' | 'empty_folder' };
}

/** The text that a path holds; undefined where there is nothing. @throws Refusal where it is no text, or too large */
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

/** Proposes that a file hold a text. */
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

/** On one line: a model that writes more of them could make it look like what the host says. */
export const intentOf = ({ intent }: { readonly intent?: unknown }): string =>
  typeof intent === 'string' ? onOneLine(intent.replaceAll(/\s+/g, ' ').trim()) : '';

/** Changes of files are applied one at a time, so that of two upon the same base only the first counts. */
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

  /** What the path holds tells whether it was applied; nothing of it may be told to whom the path is closed now. */
  async verify({ path, write, base, change }: StagedFile): Promise<'applied' | 'not_applied' | 'unknown'> {
    const scope = { grants: { read: [], write: [...write] }, cwd: undefined };
    const allowed = await this.#confinement.allowed(path, scope, 'write', false);
    if (allowed.path !== path) return 'unknown';
    const holds = await this.#holds(allowed, 'remove' in change && change.remove === 'empty_folder');
    const wanted = 'contents' in change ? hashOf(Buffer.from(change.contents)) : absent;
    if (holds === wanted) return 'applied';
    return holds === base ? 'not_applied' : 'unknown';
  }

  /** Undefined where something else took the place of a folder. @throws where it did so of a file */
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

/** A folder counts as it was proposed: empty. */
function heldFolder(kind: Entry['kind'] | undefined): BaseHash | undefined {
  if (kind === undefined) return absent;
  return kind === 'folder' ? hashOf(Buffer.alloc(0)) : undefined;
}

const done = ({ base, change }: StagedFile): string => {
  if ('remove' in change) return 'Deleted';
  return base === absent ? 'Created' : 'Replaced';
};

/** Returns for errors of the file system that leave the change possible later, such as a full disk. */
function throwOrTell(error: unknown, path: string): void {
  const gone = ['ENOENT', 'ENOTDIR', 'EISDIR', 'ELOOP'].includes(codeOf(error) ?? '');
  if (error instanceof Moved || error instanceof Refusal || error instanceof Swapped || gone)
    throw baseMoved(
      `${path} is not what it was when this change was proposed, so nothing was done. Discard the change, and have it made again.`,
      { cause: error },
    );
  if (!(fileRefusal(error, path) instanceof Refusal)) throw error;
}
