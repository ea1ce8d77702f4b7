import { basename } from 'node:path';
import { AgentError } from '../../errors.ts';
import type { ChangeText, Proposal, ToolContext, ToolOutput } from '../../tool.ts';
import { unifiedDiff } from '../diff.ts';
import { type AllowedPath, type Confinement, retryWhenSwapped } from '../paths/confinement.ts';
import { type Entry, type Folder, PathSwapped } from '../paths/folder.ts';
import {
  absentHash,
  type BaseHash,
  hashBytes,
  BaseMoved,
  areLinked,
  moveFile,
  moveFolder,
  removeEmptyFolder,
  removeFile,
  replaceFile,
  hashFile,
  decodeText,
  readWholeFile,
  withFile,
} from '../paths/files.ts';
import {
  baseMovedError,
  systemErrorCode,
  toFileRefusal,
  escapeLine,
  Refusal,
  refusedOutput,
  okOutput,
} from '../refusal.ts';
import { StagedView } from './staged-view.ts';
import { riskOf } from '../risky-files.ts';
import { invisibleCharactersWarning } from '../invisible-characters.ts';

/** Maximum bytes of a text that is written or edited, before and after. */
export const maxTextBytes = 1024 * 1024;

/** Complete payload of a file change, from which any process can apply it. */
export interface StagedFile {
  /** Real path, without links at the time of the proposal. */
  readonly path: string;
  /** Write grants at the time of the proposal. */
  readonly write: readonly string[];
  readonly base: BaseHash;
  /** The agent's own text, where a person replaced it. */
  readonly proposed?: string;
  readonly change:
    | { readonly contents: string }
    | { readonly remove: 'file' | 'empty_folder' }
    | { readonly make: 'folder' }
    /** A rename to `path`; `moved` is what lies at `from`. */
    | { readonly from: string; readonly moved: FileState };
}

/** What lies at a path: the hash of a file, `folder`, or `absent`. */
export type FileState = BaseHash;

/** What must lie at the path of a change before it. */
export const stateBefore = ({ base, change }: StagedFile): FileState =>
  'remove' in change && change.remove === 'empty_folder' ? 'folder' : base;

/** What lies at the path of a change after it. */
export function stateAfter({ change }: StagedFile): FileState {
  if ('contents' in change) return hashBytes(Buffer.from(change.contents));
  if ('from' in change) return change.moved;
  return 'make' in change ? 'folder' : absentHash;
}

/**
 * Opens the folder of what a path leads to, which may still have another name.
 * @param real where it lies on the disk
 * @returns undefined where there is nothing
 * @throws Refusal where a renamed folder has a link in it
 */
export async function openFound<Answer>(
  confinement: Confinement,
  { allowed, real }: { readonly allowed: AllowedPath; readonly real: string },
  { grants }: Pick<ToolContext, 'grants'>,
  use: (folder: Folder, name: string) => Promise<Answer>,
): Promise<Answer | undefined> {
  const { shown } = allowed;
  const linkRefusal = () =>
    new Refusal(`${shown} leads over a link in a renamed folder; that works when the renaming was made.`);
  let at = allowed;
  if (real !== allowed.path) {
    at = await confinement.resolveAllowed(real, { grants, cwd: undefined }, 'write', false);
    if (at.path !== real) throw linkRefusal();
  }
  if (at.missing.length > 0) return undefined;
  return await retryWhenSwapped(shown, async () => {
    const folder = await confinement.openParent(at);
    try {
      const name = basename(real);
      if (real !== allowed.path && (await folder.kind(name)) === 'link') throw linkRefusal();
      return await use(folder, name);
    } finally {
      await folder.close();
    }
  });
}

/** What a path leads to; undefined for nothing. */
export async function kindAt(
  confinement: Confinement,
  allowed: AllowedPath,
  context: Pick<ToolContext, 'grants'>,
  view: StagedView,
): Promise<Entry['kind'] | undefined> {
  const found = view.find(allowed.path);
  if (found.kind === 'absent') return undefined;
  if (found.kind !== 'real') return found.kind === 'folder' ? 'folder' : 'file';
  return await openFound(confinement, { allowed, real: found.real }, context, (folder, name) =>
    name === '' ? Promise.resolve('folder' as const) : folder.kind(name),
  );
}

export const isFolderRefusal = (shown: string) =>
  new Refusal(`${shown} is a folder; fs_list shows what is in it.`);

/**
 * Reads the text of a file, as the staged changes would leave it; undefined when there is none.
 * @throws Refusal when it is not text, or too large
 */
export async function readTextFile(
  confinement: Confinement,
  allowed: AllowedPath,
  context: Pick<ToolContext, 'grants' | 'signal'>,
  view = new StagedView(),
): Promise<{ text: string; base: BaseHash } | undefined> {
  const found = view.find(allowed.path);
  if (found.kind === 'absent') return undefined;
  if (found.kind === 'folder') throw isFolderRefusal(allowed.shown);
  if (found.kind === 'text') {
    const text = await view.textOf(found);
    return { text, base: hashBytes(Buffer.from(text)) };
  }
  return await openFound(confinement, { allowed, real: found.real }, context, (folder, name) =>
    withFile(folder, name, async (file) => {
      const bytes = await readWholeFile(file, allowed.shown, maxTextBytes, context.signal);
      const text = decodeText(bytes);
      if (text === undefined)
        throw new Refusal(`${allowed.shown} is binary (or no UTF-8 text); only text files can be changed.`);
      return { text, base: hashBytes(bytes) };
    }),
  );
}

/** Creates the proposal to write a text to a file. */
export function proposeText(
  {
    allowed,
    before,
    after,
  }: { allowed: AllowedPath; before: { text: string; base: BaseHash } | undefined; after: string },
  args: { readonly intent?: unknown },
  { grants }: ToolContext,
): Proposal {
  const fault = textFault(after);
  if (fault !== undefined) throw new Refusal(fault);
  if (before?.text === after) throw new Refusal(`${allowed.shown} holds exactly this text already.`);
  const base = before?.base ?? absentHash;
  const payload: StagedFile = {
    path: allowed.path,
    write: grants.write,
    base,
    change: { contents: after },
  };
  return {
    kind: 'file_write',
    intent: readIntent(args),
    ...describeText(allowed.path, before?.text, after),
    path: allowed.path,
    baseHash: base,
    payload,
  };
}

/** Why a text cannot be written. */
function textFault(text: string): string | undefined {
  const bytes = Buffer.byteLength(text);
  if (bytes > maxTextBytes)
    return `The text would have ${bytes} bytes; at most ${maxTextBytes} can be written at once.`;
  return !text.isWellFormed() || text.includes('\0')
    ? 'The text holds NUL characters or half surrogate pairs, which no text file may hold.'
    : undefined;
}

/** What a person is shown of a text that replaces another one. */
function describeText(
  path: string,
  before: string | undefined,
  after: string,
): { summary: string; diff: string; risk: Proposal['risk'] } {
  const isNew = before === undefined;
  const risk = riskOf(path, before, after);
  const warning = risk === undefined ? '' : ` High risk: ${risk}.`;
  return {
    summary: `${isNew ? 'Create' : 'Replace'} ${escapeLine(path)} (${Buffer.byteLength(after)} bytes).${warning}${invisibleCharactersWarning(before ?? '', after)}`,
    diff: unifiedDiff(path, before, after),
    risk: risk === undefined ? (isNew ? 'low' : 'medium') : 'high',
  };
}

/** The intent on one line, so that a model cannot imitate texts of the host. */
export const readIntent = ({ intent }: { readonly intent?: unknown }): string =>
  typeof intent === 'string' ? escapeLine(intent.replaceAll(/\s+/g, ' ').trim()) : '';

/** Applies file changes one at a time, so that of two changes with the same base only the first succeeds. */
export class FileChanges {
  readonly #confinement: Confinement;
  #lastChange: Promise<unknown> = Promise.resolve();

  constructor(confinement: Confinement) {
    this.#confinement = confinement;
  }

  /** @throws AgentError `base_moved` */
  async apply(staged: StagedFile, signal: AbortSignal): Promise<ToolOutput> {
    return await this.exclusively(() => this.applyNow(staged, signal));
  }

  /** Runs what may change files when nothing else does. */
  async exclusively<Answer>(run: () => Promise<Answer>): Promise<Answer> {
    const thisChange = this.#lastChange.then(run);
    this.#lastChange = thisChange.catch(() => undefined);
    return await thisChange;
  }

  /** What lies at a path now; undefined for a link or a device. Checks the grants again. */
  async stateAt(path: string, write: readonly string[]): Promise<FileState | undefined> {
    return await this.#inParent(path, write, async (folder, name) => {
      const kind = await folder.kind(name);
      if (kind === 'folder') return 'folder';
      if (kind !== undefined && kind !== 'file') return undefined;
      return (await withFile(folder, name, (file) => hashFile(file, never))) ?? absentHash;
    });
  }

  /** Compares the file with the change. Checks the grants again, so that it discloses nothing about a closed path. */
  async verify(staged: StagedFile): Promise<'applied' | 'not_applied' | 'unknown'> {
    const { path, write, change } = staged;
    const state = await this.stateAt(path, write);
    if ('from' in change) {
      const source = await this.stateAt(change.from, write);
      if (source === absentHash && state === change.moved) return 'applied';
      const isUndone = source === change.moved && (state === absentHash || (await this.isHalfMoved(staged)));
      return isUndone ? 'not_applied' : 'unknown';
    }
    if (state === stateAfter(staged)) return 'applied';
    return state === stateBefore(staged) ? 'not_applied' : 'unknown';
  }

  /** Whether a file has both names, as after a crash between the two steps of its renaming. */
  async isHalfMoved({ path, write, change }: StagedFile): Promise<boolean> {
    if (!('from' in change) || change.moved === 'folder') return false;
    const linked = await this.#inParent(path, write, (folder, name) =>
      this.#inParent(change.from, write, (source, old) =>
        areLinked({ folder, name }, { folder: source, name: old }).catch(() => false),
      ),
    );
    return linked === true;
  }

  async #inParent<Answer>(
    path: string,
    write: readonly string[],
    use: (folder: Folder, name: string) => Promise<Answer>,
  ): Promise<Answer | typeof absentHash | undefined> {
    const allowed = await this.#resolve(path, write).catch((error: unknown) => {
      // Nothing lies below a file.
      if (error instanceof Refusal && systemErrorCode(error.cause) === 'ENOTDIR')
        return 'below_file' as const;
      throw error;
    });
    if (allowed === 'below_file') return absentHash;
    if (allowed.path !== path) return undefined;
    if (allowed.missing.length > 0) return absentHash;
    const folder = await this.#confinement.openParent(allowed);
    try {
      return await use(folder, basename(path));
    } finally {
      await folder.close();
    }
  }

  async #resolve(path: string, write: readonly string[]): Promise<AllowedPath> {
    const scope = { grants: { read: [], write: [...write] }, cwd: undefined };
    return await this.#confinement.resolveAllowed(path, scope, 'write', false);
  }

  /** A person may correct the text of a change. */
  readonly text: ChangeText = {
    of: (payload) => {
      const { change } = payload as StagedFile;
      return 'contents' in change ? change.contents : undefined;
    },
    replace: async (payload, text, signal) => {
      const staged = payload as StagedFile;
      const { path, base, proposed = this.text.of(staged) ?? '' } = staged;
      const fault = textFault(text);
      if (fault !== undefined) throw new AgentError('invalid', 'invalid_value', fault);
      // A change that builds on a staged one is compared with the text of the agent.
      const before = base === absentHash ? undefined : ((await this.#readBase(staged, signal)) ?? proposed);
      const { summary, ...described } = describeText(path, before, text);
      return {
        ...described,
        summary: `${summary} Changed by a person.`,
        payload: { ...staged, proposed, change: { contents: text } } satisfies StagedFile,
      };
    },
  };

  /** The text that a change is based on, if the file is still that. */
  async #readBase({ path, write, base }: StagedFile, signal: AbortSignal): Promise<string | undefined> {
    const context = {
      grants: { tools: [], read: [], write: [...write], network: [], auto_approve: [] },
      signal,
    };
    try {
      const allowed = await this.#resolve(path, write);
      const file = await readTextFile(this.#confinement, allowed, context);
      return file?.base === base ? file.text : undefined;
    } catch (error) {
      if (error instanceof Refusal || error instanceof PathSwapped) return undefined;
      throw error;
    }
  }

  /** Applies a change within `exclusively`. @throws AgentError `base_moved` */
  async applyNow(staged: StagedFile, signal: AbortSignal): Promise<ToolOutput> {
    const { path, write, base, change } = staged;
    try {
      const allowed = await this.#resolve(path, write);
      if (allowed.path !== path) throw new BaseMoved('a link is in the way');
      if ('from' in change) await this.#move(change, allowed, { write, signal });
      else {
        const isCreating = 'make' in change || ('contents' in change && base === absentHash);
        const folder = await this.#confinement.openParent(allowed, isCreating);
        try {
          const name = basename(path);
          if ('contents' in change)
            await replaceFile(folder, name, Buffer.from(change.contents), base, signal);
          else if ('make' in change) {
            await (await folder.openOrCreateFolder(name)).close();
            await folder.sync();
          } else if (change.remove === 'file') await removeFile(folder, name, base, signal);
          else await removeEmptyFolder(folder, name);
        } finally {
          await folder.close();
        }
      }
    } catch (error) {
      rethrowUnlessRetryable(error, path);
      return refusedOutput((toFileRefusal(error, path) as Error).message);
    }
    return okOutput(`${describeChange(staged)} ${path}.${describeEdit(staged)}`);
  }

  async #move(
    { from, moved }: { readonly from: string; readonly moved: FileState },
    to: AllowedPath,
    { write, signal }: { readonly write: readonly string[]; readonly signal: AbortSignal },
  ): Promise<void> {
    const source = await this.#resolve(from, write);
    if (source.path !== from || source.missing.length > 0) throw new BaseMoved('it is gone');
    if (moved === 'folder' && (await this.#confinement.holdsForbidden(from)))
      throw new Refusal(`${from} holds what belongs to the host itself.`);
    const sourceFolder = await this.#confinement.openParent(source);
    try {
      const old = { folder: sourceFolder, name: basename(from) };
      // Before folders are made for it.
      if ((await this.stateAt(from, write)) !== moved) throw new BaseMoved('it is not what it was');
      const folder = await this.#confinement.openParent(to, true);
      try {
        const entry = { folder, name: basename(to.path) };
        await (moved === 'folder' ? moveFolder(old, entry) : moveFile(old, entry, moved, signal));
      } finally {
        await folder.close();
      }
    } finally {
      await sourceFolder.close();
    }
  }
}

const never = new AbortController().signal;

/** What a person made of the agent's text, for the agent. */
function describeEdit({ path, proposed, change }: StagedFile): string {
  if (proposed === undefined || !('contents' in change) || proposed === change.contents) return '';
  return ` A person changed your text first:\n${unifiedDiff(path, proposed, change.contents)}`;
}

export const describeChange = ({ base, change }: StagedFile): string => {
  if ('remove' in change) return 'Deleted';
  if ('make' in change) return 'Created the folder';
  if ('from' in change) return `Renamed ${change.from} to`;
  return base === absentHash ? 'Created' : 'Replaced';
};

/** Rethrows an error; returns for file system errors after which the change may succeed later, such as a full disk. */
function rethrowUnlessRetryable(error: unknown, path: string): void {
  const isGone = ['ENOENT', 'ENOTDIR', 'EISDIR', 'ELOOP'].includes(systemErrorCode(error) ?? '');
  if (error instanceof BaseMoved || error instanceof Refusal || error instanceof PathSwapped || isGone)
    throw baseMovedError(
      `${path} is not what it was when this change was proposed, so nothing was done. Discard the change, and have it made again.`,
      { cause: error },
    );
  if (!(toFileRefusal(error, path) instanceof Refusal)) throw error;
}
