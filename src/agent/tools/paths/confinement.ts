import { dirname, isAbsolute, join, resolve, sep } from 'node:path';
import { fileRefusal, onOneLine, Refusal } from '../refusal.ts';
import { Folder, Forbidden, Swapped } from './folder.ts';
import { isWithin, type Resolved, resolvePath, Unresolved } from './resolve.ts';
import { allows, grantRoots, type PathGrants } from './roots.ts';

const tries = 8;

/** A path that the grants allow. */
export interface Allowed {
  /** As the argument gave it, safe to print. */
  readonly shown: string;
  /** Absolute, without links. */
  readonly path: string;
  /** Names at its end that did not exist when it was looked up. */
  readonly missing: readonly string[];
}

export interface Scope {
  readonly grants: PathGrants;
  readonly cwd: string | undefined;
}

/**
 * Keeps paths of arguments within grants. A path is translated first (resolve.ts), checked against the grants, and then
 * walked folder by folder without following links (folder.ts): what was swapped in between is not followed but looked
 * up anew. Hard links are out of reach: a file that lies in a granted folder under a second name is in that folder.
 */
export class Confinement {
  /** As they were given. */
  readonly forbidden: readonly string[];
  readonly #forbidden: Forbidden;

  /** @param forbidden absolute paths that nobody may reach, whatever is granted */
  constructor(forbidden: readonly string[]) {
    this.forbidden = forbidden;
    // In /proc are the environment and the memory of the host itself; a sandbox has one of its own.
    this.#forbidden = new Forbidden([...forbidden, '/proc']);
  }

  /** @throws Refusal where the path is not granted, or does not exist and is to be read */
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
      // Not `resolve`: what `..` means behind a link is for resolvePath to say.
      found = await resolvePath(
        isAbsolute(argument) ? argument : `${resolve(cwd ?? '')}${sep}${argument}`,
        follow,
      );
    } catch (error) {
      if (!(error instanceof Unresolved)) throw error;
      // Whether something exists outside of the grants is nobody's business either.
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

  /** Whether what nobody may reach is no longer where it was when the host was started. */
  async isDisturbed(): Promise<boolean> {
    return await this.#forbidden.moved();
  }

  /** Opens an allowed folder. @throws Swapped */
  async open(path: string): Promise<Folder> {
    return await Folder.open(path, await this.#forbidden.ids());
  }

  /**
   * The folder that an allowed path lies in; those that are missing are made where `make` says so.
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
 * Does it again where things were swapped under it.
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
