import { dirname, isAbsolute, join, resolve, sep } from 'node:path';
import { fileRefusal, onOneLine, Refusal } from '../refusal.ts';
import { Folder, Forbidden, Swapped } from './folder.ts';
import { isWithin, type Resolved, resolvePath, Unresolved } from './resolve.ts';
import { allows, grantRoots, type PathGrants } from './roots.ts';

const tries = 8;

/** A path that the grants allow. */
export interface Allowed {
  /** The argument in printable form. */
  readonly shown: string;
  /** Absolute real path, without links. */
  readonly path: string;
  /** Trailing names that did not exist when the path was resolved. */
  readonly missing: readonly string[];
}

export interface Scope {
  readonly grants: PathGrants;
  readonly cwd: string | undefined;
}

/**
 * Confines path arguments to grants. A path is resolved (resolve-path.ts), checked against the grants, and then opened
 * folder by folder without following links (folder.ts). If a part was replaced in between, the path is resolved again.
 * Hard links cannot be detected: a file with a second name in a granted folder belongs to that folder.
 */
export class Confinement {
  /** Forbidden paths, as configured. */
  readonly forbidden: readonly string[];
  readonly #forbidden: Forbidden;

  /** @param forbidden absolute paths that no agent may access, whatever its grants */
  constructor(forbidden: readonly string[]) {
    this.forbidden = forbidden;
    // /proc exposes the environment and memory of the host; a sandbox has its own /proc.
    this.#forbidden = new Forbidden([...forbidden, '/proc']);
  }

  /** Resolves and checks a path. @throws Refusal when it is not granted, or does not exist and is to be read */
  async allowed(
    argument: string,
    { grants, cwd }: Scope,
    access: 'read' | 'write',
    follow = true,
  ): Promise<Allowed> {
    const shown = onOneLine(argument.length > 200 ? `${argument.slice(0, 200)}...` : argument);
    if (argument === '' || argument.includes('\0') || !argument.isWellFormed())
      throw new Refusal(`path: expected a path without NUL characters, got '${shown}'.`);
    if (!isAbsolute(argument) && cwd === undefined)
      throw new Refusal(`${shown} is relative, and there is no working folder; give an absolute path.`);
    const roots = await grantRoots(grants);
    const outside = () => new Refusal(notGranted(shown, roots.length === 0, access));
    let found: Resolved;
    try {
      // `resolve` must not be used: `..` after a link is resolved by resolvePath.
      found = await resolvePath(
        isAbsolute(argument) ? argument : `${resolve(cwd ?? '')}${sep}${argument}`,
        follow,
      );
    } catch (error) {
      if (!(error instanceof Unresolved)) throw error;
      // The error must not disclose what exists outside of the grants.
      if (!allows(roots, error.reached, 'read')) throw outside();
      throw fileRefusal(Object.assign(new Error(error.message), { code: error.code }), shown);
    }
    const path = join(found.real, ...found.missing);
    if (!allows(roots, path, access)) throw outside();
    if (this.#forbidden.paths.some((one) => isWithin(one, path)))
      throw new Refusal(`${shown} belongs to the host itself; no agent may reach it.`);
    if (access === 'read' && found.missing.length > 0)
      throw new Refusal(`${shown}: there is no such file or folder.`);
    return { shown, path, missing: found.missing };
  }

  /** Whether a forbidden path was moved since the start of the host. */
  async isDisturbed(): Promise<boolean> {
    return await this.#forbidden.moved();
  }

  /** Opens an allowed folder. @throws Swapped */
  async open(path: string): Promise<Folder> {
    return await Folder.open(path, await this.#forbidden.ids());
  }

  /**
   * Opens the parent folder of an allowed path; creates missing folders when `createMissing` is true.
   * @throws Swapped
   */
  async openParent({ path, missing }: Allowed, make = false): Promise<Folder> {
    const wanted = missing.slice(0, -1);
    if (!make || wanted.length === 0) return await this.open(dirname(path));
    let folder = await this.open(join(path, ...missing.map(() => '..')));
    for (const name of wanted) {
      const parent = folder;
      try {
        folder = await parent.madeFolder(name);
      } finally {
        await parent.close();
      }
    }
    return folder;
  }
}

/**
 * Retries an operation when a part of its path was replaced meanwhile.
 * @throws Refusal
 */
export async function undisturbed<Answer>(shown: string, work: () => Promise<Answer>): Promise<Answer> {
  for (let left = tries; ; left -= 1) {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof Swapped)) throw fileRefusal(error, shown);
      if (left === 1) throw new Refusal(`${shown} changes while it is being opened; try again later.`);
    }
  }
}

function notGranted(shown: string, none: boolean, access: 'read' | 'write'): string {
  const what = access === 'read' ? 'reading' : 'writing';
  return none
    ? `${shown}: this agent was granted no paths, so it reads and writes no files.`
    : `${shown} is outside of the paths that this agent was granted for ${what}.`;
}
