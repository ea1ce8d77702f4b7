import type { Stats } from 'node:fs';
import { lstat, readdir, readFile, readlink, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { isRiskyLink, isRiskyPath, riskOf } from '../risky-files.ts';

/** Entries that are looked at, the nearest to the granted folders first. */
const maxEntries = 50_000;
const maxBytes = 1024 * 1024;
const maxTotalBytes = 64 * 1024 * 1024;
/** Folders with many entries, in which nothing is run by itself. */
const skipped = /[\\/](?:node_modules|\.git[\\/]objects)$/;

interface Saved {
  readonly stat: Stats;
  /** Contents of a file, or where a link points; undefined when it is too large. */
  readonly contents: Buffer | string | undefined;
}

/**
 * Files that other programs run (risky-files.ts), as they were before a command that nobody approved: afterwards, what it
 * made of them is taken back.
 */
export class GuardedFiles {
  readonly #roots: readonly string[];
  readonly #saved: ReadonlyMap<string, Saved>;

  private constructor(roots: readonly string[], saved: ReadonlyMap<string, Saved>) {
    this.#roots = roots;
    this.#saved = saved;
  }

  /** @param roots folders that the command may write to */
  static async save(roots: readonly string[]): Promise<GuardedFiles> {
    const saved = new Map<string, Saved>();
    let bytes = 0;
    for (const path of await findRisky(roots)) {
      const one = await read(path, maxTotalBytes - bytes);
      if (!one) continue;
      saved.set(path, one);
      bytes += one.contents?.length ?? 0;
    }
    return new GuardedFiles(roots, saved);
  }

  /** Takes back what was created or changed. @returns a line for each such file */
  async restore(): Promise<string[]> {
    const lines: string[] = [];
    for (const path of await findRisky(this.#roots)) {
      const before = this.#saved.get(path);
      const now = await read(path, maxTotalBytes);
      if (!now || (before && isSame(before, now))) continue;
      const reason = describeRisk(path, before, now);
      if (reason === undefined) continue;
      lines.push(await takeBack(path, before, reason));
    }
    return lines;
  }
}

const isSame = (a: Saved, b: Saved): boolean =>
  a.contents !== undefined && b.contents !== undefined
    ? Buffer.from(a.contents).equals(Buffer.from(b.contents)) && a.stat.isFile() === b.stat.isFile()
    : a.stat.ino === b.stat.ino && a.stat.ctimeMs === b.stat.ctimeMs && a.stat.size === b.stat.size;

function describeRisk(path: string, before: Saved | undefined, now: Saved): string | undefined {
  if (!now.stat.isFile() || now.contents === undefined) return 'a link, or too large to be looked at';
  return riskOf(
    path,
    before?.stat.isFile() ? before.contents?.toString() : undefined,
    now.contents.toString(),
  );
}

async function takeBack(path: string, before: Saved | undefined, reason: string): Promise<string> {
  const why = `${reason}, and nobody approved this command`;
  try {
    if (!before) {
      await rm(path, { force: true });
      return `${path} was removed again: ${why}`;
    }
    if (before.contents === undefined) return `${path} was changed, and is too large to be restored: ${why}`;
    const temporary = `${path}.${randomBytes(6).toString('hex')}.tmp`;
    if (typeof before.contents === 'string') await symlink(before.contents, temporary);
    else await writeFile(temporary, before.contents, { flag: 'wx', mode: before.stat.mode & 0o777 });
    await rename(temporary, path);
    return `${path} was restored: ${why}`;
  } catch {
    return `${path} could not be taken back, look at it: ${why}`;
  }
}

async function read(path: string, room: number): Promise<Saved | undefined> {
  try {
    const stat = await lstat(path);
    if (stat.isSymbolicLink()) return { stat, contents: await readlink(path) };
    if (!stat.isFile()) return undefined;
    return { stat, contents: stat.size > Math.min(maxBytes, room) ? undefined : await readFile(path) };
  } catch {
    // It is gone, or not readable.
    return undefined;
  }
}

/** Paths of risky files below folders, without following links. */
async function findRisky(roots: readonly string[]): Promise<string[]> {
  const found: string[] = [];
  const queue = [...roots];
  let entries = 0;
  for (let path = queue.shift(); path !== undefined && entries < maxEntries; path = queue.shift()) {
    const children = await readdir(path, { withFileTypes: true }).catch(() => []);
    entries += children.length;
    for (const child of children) {
      const inner = join(path, child.name);
      if (child.isDirectory()) {
        if (!skipped.test(inner)) queue.push(inner);
      } else if (child.isSymbolicLink() ? isRiskyLink(inner) : isRiskyPath(inner)) found.push(inner);
    }
  }
  return found;
}
