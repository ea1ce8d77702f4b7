import { basename } from 'node:path';
import { AgentError } from '../../errors.ts';
import type { ChangeText, Proposal, ToolContext, ToolOutput } from '../../tool.ts';
import { unifiedDiff } from '../diff.ts';
import { type AllowedPath, type Confinement, retryWhenSwapped } from '../paths/confinement.ts';
import { type Entry, PathSwapped } from '../paths/folder.ts';
import {
  absentHash,
  type BaseHash,
  hashBytes,
  BaseMoved,
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
import { readStaged } from './staged-view.ts';
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
  readonly change: { readonly contents: string } | { readonly remove: 'file' | 'empty_folder' };
}

/**
 * Reads the text of a file, as the staged changes would leave it; undefined when there is none.
 * @throws Refusal when it is not text, or too large
 */
export async function readTextFile(
  confinement: Confinement,
  allowed: AllowedPath,
  context: Pick<ToolContext, 'staged' | 'signal'>,
): Promise<{ text: string; base: BaseHash } | undefined> {
  const staged = await readStaged(context, allowed.path);
  if (staged === 'deleted') return undefined;
  if (staged) return { text: staged.text, base: hashBytes(Buffer.from(staged.text)) };
  if (allowed.missing.length > 0) return undefined;
  return await retryWhenSwapped(allowed.shown, async () => {
    const folder = await confinement.openParent(allowed);
    try {
      return await withFile(folder, basename(allowed.path), async (file) => {
        const bytes = await readWholeFile(file, allowed.shown, maxTextBytes, context.signal);
        const text = decodeText(bytes);
        if (text === undefined)
          throw new Refusal(`${allowed.shown} is binary (or no UTF-8 text); only text files can be changed.`);
        return { text, base: hashBytes(bytes) };
      });
    } finally {
      await folder.close();
    }
  });
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

  /** Hash of what is at the path of a change now. Checks the grants again. */
  async currentHash({ path, write, change }: StagedFile): Promise<BaseHash | undefined> {
    const scope = { grants: { read: [], write: [...write] }, cwd: undefined };
    const allowed = await this.#confinement.resolveAllowed(path, scope, 'write', false);
    if (allowed.path !== path) return undefined;
    return await this.#readCurrentHash(allowed, 'remove' in change && change.remove === 'empty_folder');
  }

  /** Compares the file with the change. Checks the grants again, so that it discloses nothing about a closed path. */
  async verify(staged: StagedFile): Promise<'applied' | 'not_applied' | 'unknown'> {
    const { base, change } = staged;
    const currentHash = await this.currentHash(staged);
    const wantedHash = 'contents' in change ? hashBytes(Buffer.from(change.contents)) : absentHash;
    if (currentHash === wantedHash) return 'applied';
    return currentHash === base ? 'not_applied' : 'unknown';
  }

  /** Hash of the current content; undefined when a folder was replaced. @throws when a file was replaced */
  async #readCurrentHash(allowed: AllowedPath, folder: boolean): Promise<BaseHash | undefined> {
    if (allowed.missing.length > 0) return absentHash;
    const parent = await this.#confinement.openParent(allowed);
    try {
      const name = basename(allowed.path);
      if (folder) return folderHash(await parent.kind(name));
      const noSignal = new AbortController().signal;
      return (await withFile(parent, name, (file) => hashFile(file, noSignal))) ?? absentHash;
    } finally {
      await parent.close();
    }
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
    const scope = { grants: { read: [], write: [...write] }, cwd: undefined, signal };
    try {
      const allowed = await this.#confinement.resolveAllowed(path, scope, 'write', false);
      const file = await readTextFile(this.#confinement, allowed, scope);
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
      const scope = { grants: { read: [], write: [...write] }, cwd: undefined };
      const allowed = await this.#confinement.resolveAllowed(path, scope, 'write', false);
      if (allowed.path !== path) throw new BaseMoved('a link is in the way');
      const isCreating = 'contents' in change && base === absentHash;
      const folder = await this.#confinement.openParent(allowed, isCreating);
      try {
        const name = basename(path);
        if ('contents' in change) await replaceFile(folder, name, Buffer.from(change.contents), base, signal);
        else if (change.remove === 'file') await removeFile(folder, name, base, signal);
        else await removeEmptyFolder(folder, name);
      } finally {
        await folder.close();
      }
    } catch (error) {
      rethrowUnlessRetryable(error, path);
      return refusedOutput((toFileRefusal(error, path) as Error).message);
    }
    return okOutput(`${describeChange(staged)} ${path}.${describeEdit(staged)}`);
  }
}

/** What a person made of the agent's text, for the agent. */
function describeEdit({ path, proposed, change }: StagedFile): string {
  if (proposed === undefined || !('contents' in change) || proposed === change.contents) return '';
  return ` A person changed your text first:\n${unifiedDiff(path, proposed, change.contents)}`;
}

/** Hash of a folder, which is always proposed as empty. */
function folderHash(kind: Entry['kind'] | undefined): BaseHash | undefined {
  if (kind === undefined) return absentHash;
  return kind === 'folder' ? hashBytes(Buffer.alloc(0)) : undefined;
}

export const describeChange = ({ base, change }: StagedFile): string => {
  if ('remove' in change) return 'Deleted';
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
