import { dirname, isAbsolute, join, resolve, sep } from 'node:path';
import { toFileRefusal, escapeLine, Refusal } from '../refusal.ts';
import { Folder, ForbiddenFolders, PathSwapped } from './folder.ts';
import { isWithin, type Resolved, resolvePath, UnresolvedPath } from './resolve-path.ts';
import { isAllowed, resolveGrantRoots, type PathGrants } from './grant-roots.ts';

const maxAttempts = 8;

/** A path that the grants allow. */
export interface AllowedPath {
  /** The argument in printable form. */
  readonly shown: string;
  /** Absolute real path, without links. */
  readonly path: string;
  /** Trailing names that did not exist when the path was resolved. */
  readonly missing: readonly string[];
}

/** Files and folders as staged changes would leave them. */
export interface PathView {
  /** Whether staged changes say what lies at a path that is missing on the disk. */
  isStaged(path: string): boolean;
  /** Whether a folder of the disk is still that folder. */
  isUnmoved(folder: string): boolean;
  /** Whether a part of the path is a file, which is staged. */
  isBelowFile(path: string): boolean;
}

export interface PathScope {
  readonly grants: PathGrants;
  readonly cwd: string | undefined;
  /** Staged changes, which may make, move and remove what the path names. */
  readonly view?: PathView;
}

/**
 * Confines path arguments to grants. A path is resolved (resolve-path.ts), checked against the grants, and then opened
 * folder by folder without following links (folder.ts). If a part was replaced in between, the path is resolved again.
 * Hard links cannot be detected: a file with a second name in a granted folder belongs to that folder.
 */
export class Confinement {
  /** Forbidden paths, as configured. */
  readonly forbidden: readonly string[];
  readonly #forbidden: ForbiddenFolders;

  /** @param forbidden absolute paths that no agent may access, whatever its grants */
  constructor(forbidden: readonly string[]) {
    this.forbidden = forbidden;
    // /proc exposes the environment and memory of the host; a sandbox has its own /proc.
    this.#forbidden = new ForbiddenFolders([...forbidden, '/proc']);
  }

  /** Resolves and checks a path. @throws Refusal when it is not granted, or does not exist and is to be read */
  async resolveAllowed(
    argument: string,
    { grants, cwd, view }: PathScope,
    access: 'read' | 'write',
    follow = true,
  ): Promise<AllowedPath> {
    const shown = escapeLine(argument.length > 200 ? `${argument.slice(0, 200)}...` : argument);
    if (argument === '' || argument.includes('\0') || !argument.isWellFormed())
      throw new Refusal(`path: expected a path without NUL characters, got '${shown}'.`);
    if (!isAbsolute(argument) && cwd === undefined)
      throw new Refusal(`${shown} is relative, and there is no working folder; give an absolute path.`);
    const roots = await resolveGrantRoots(grants);
    const notGrantedError = () => new Refusal(describeNotGranted(shown, roots.length === 0, access));
    let resolved: Resolved;
    try {
      // `resolve` must not be used: `..` after a link is resolved by resolvePath.
      resolved = await resolvePath(
        isAbsolute(argument) ? argument : `${resolve(cwd ?? '')}${sep}${argument}`,
        follow,
      );
    } catch (error) {
      if (!(error instanceof UnresolvedPath)) throw error;
      // The error must not disclose what exists outside of the grants.
      if (!isAllowed(roots, error.reachedFolder, 'read')) throw notGrantedError();
      const below = resolvedBelowStaged(error, view);
      if (!below) throw toFileRefusal(Object.assign(new Error(error.message), { code: error.code }), shown);
      resolved = below;
    }
    const path = join(resolved.real, ...resolved.missing);
    if (!isAllowed(roots, path, access)) throw notGrantedError();
    if (isTooLong(path)) throw new Refusal(`${shown}: a name in it, or all of it, is too long.`);
    if (view?.isBelowFile(path)) throw toFileRefusal(Object.assign(new Error(), { code: 'ENOTDIR' }), shown);
    const left = resolved.passedFolders.filter((folder) => !isWithin(folder, path));
    if (view && !left.every((folder) => view.isUnmoved(folder)))
      throw new Refusal(`${shown} leads through a folder that a staged change renames or deletes.`);
    if (this.#forbidden.paths.some((one) => isWithin(one, path)))
      throw new Refusal(`${shown} belongs to the host itself; no agent may reach it.`);
    if (access === 'read' && resolved.missing.length > 0 && !view?.isStaged(path))
      throw new Refusal(`${shown}: there is no such file or folder.`);
    return { shown, path, missing: resolved.missing };
  }

  /** Whether a folder holds something that no agent may access, or may hold it: then it stays where it is. */
  async holdsForbidden(folder: string): Promise<boolean> {
    if (await this.#forbidden.hasMoved()) return true;
    const real = await Promise.all(
      this.forbidden.map((one) =>
        resolvePath(one).then(
          ({ real: at, missing }) => join(at, ...missing),
          () => one,
        ),
      ),
    );
    return [...real, ...this.forbidden].some((one) => isWithin(folder, one));
  }

  /** Whether a forbidden path was moved since the start of the host. */
  async isHostDataMoved(): Promise<boolean> {
    return await this.#forbidden.hasMoved();
  }

  /** Opens an allowed folder. @throws Swapped */
  async open(path: string): Promise<Folder> {
    return await Folder.open(path, await this.#forbidden.ids());
  }

  /**
   * Opens the parent folder of an allowed path; creates missing folders when `createMissing` is true.
   * @throws Swapped
   */
  async openParent({ path, missing }: AllowedPath, createMissing = false): Promise<Folder> {
    const missingFolders = missing.slice(0, -1);
    if (!createMissing || missingFolders.length === 0) return await this.open(dirname(path));
    let folder = await this.open(join(path, ...missing.map(() => '..')));
    for (const name of missingFolders) {
      const parent = folder;
      try {
        folder = await parent.openOrCreateFolder(name);
      } finally {
        await parent.close();
      }
    }
    return folder;
  }
}

/** A path below something that is a file on the disk, and a folder when the staged changes were made. */
function resolvedBelowStaged(
  { code, reachedFolder: real, left: missing, passedFolders }: UnresolvedPath,
  view: PathView | undefined,
): Resolved | undefined {
  if (code !== 'ENOTDIR' || missing.includes('..') || !view || view.isUnmoved(real)) return undefined;
  return { real, missing, passedFolders };
}

/** As Linux has it, in bytes: 255 of a name and 4095 of a path. */
const isTooLong = (path: string): boolean =>
  Buffer.byteLength(path) > 4095 || path.split(sep).some((name) => Buffer.byteLength(name) > 255);

/**
 * Retries an operation when a part of its path was replaced meanwhile.
 * @throws Refusal
 */
export async function retryWhenSwapped<Answer>(shown: string, run: () => Promise<Answer>): Promise<Answer> {
  for (let attemptsLeft = maxAttempts; ; attemptsLeft -= 1) {
    try {
      return await run();
    } catch (error) {
      if (!(error instanceof PathSwapped)) throw toFileRefusal(error, shown);
      if (attemptsLeft === 1)
        throw new Refusal(`${shown} changes while it is being opened; try again later.`);
    }
  }
}

function describeNotGranted(shown: string, hasNoGrants: boolean, access: 'read' | 'write'): string {
  const what = access === 'read' ? 'reading' : 'writing';
  return hasNoGrants
    ? `${shown}: this agent was granted no paths, so it reads and writes no files.`
    : `${shown} is outside of the paths that this agent was granted for ${what}.`;
}
