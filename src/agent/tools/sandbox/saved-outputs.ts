import { randomBytes } from 'node:crypto';
import { createWriteStream, mkdirSync, readdirSync, rmSync, statSync } from 'node:fs';
import { open, type FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import { finished } from 'node:stream/promises';
import { systemCode } from '../../../util/system-code.ts';
import type { ToolContext } from '../../tool.ts';

/** Bytes of one output that are saved. */
const maxSavedBytes = 16 * 1024 * 1024;
/** Outputs that are kept for one task or run. */
const maxOutputs = 8;
const maxAgeMs = 24 * 60 * 60 * 1000;
const prefix = 'output:';

/** The whole output of one command. */
export interface SavedOutput {
  /** What `fs_read` takes as its path. */
  readonly path: string;
  add(bytes: Buffer): void;
  /** @returns false when not all of the output could be saved */
  end(): Promise<boolean>;
}

/**
 * Whole outputs of commands, because a model is shown only the beginning and the end of a long one. A task or run reads
 * its own. They are kept for a day.
 */
export class SavedOutputs {
  readonly #folder: string | undefined;

  /** @param folder undefined: nothing is saved */
  constructor(folder: string | undefined) {
    this.#folder = folder;
  }

  /** @param owner id of the task or run */
  create(owner: string | undefined): SavedOutput | undefined {
    if (this.#folder === undefined || owner === undefined) return undefined;
    const folder = join(this.#folder, owner);
    const name = randomBytes(6).toString('hex');
    try {
      mkdirSync(folder, { recursive: true, mode: 0o700 });
      removeOldest(folder);
    } catch {
      // The disk is full, say. The command runs all the same.
      return undefined;
    }
    const file = createWriteStream(join(folder, name), { flags: 'wx', mode: 0o600 });
    const done = finished(file).then(
      () => true,
      () => false,
    );
    let room = maxSavedBytes;
    let isComplete = true;
    return {
      path: `${prefix}${name}`,
      add(bytes) {
        if (bytes.length > room) isComplete = false;
        const part = bytes.subarray(0, room);
        room -= part.length;
        if (part.length > 0 && !file.destroyed) file.write(part);
      },
      async end() {
        file.end();
        return (await done) && isComplete;
      },
    };
  }

  /** Whether a path names a saved output rather than a file. */
  static isName(path: string): boolean {
    return path.startsWith(prefix);
  }

  /** Opens an output of the task or run of the context; undefined when there is none. */
  async open(path: string, { taskId, runId }: ToolContext): Promise<FileHandle | undefined> {
    const owner = taskId ?? runId;
    const [, name] = /^output:([0-9a-f]{12})$/.exec(path) ?? [];
    if (this.#folder === undefined || owner === undefined || name === undefined) return undefined;
    try {
      return await open(join(this.#folder, owner, name));
    } catch (error) {
      if (systemCode(error) === 'ENOENT') return undefined;
      throw error;
    }
  }

  /** Removes outputs that are older than a day. @param now ms since 1970. @throws an error of the file system */
  sweep(now: number): void {
    const folder = this.#folder;
    if (folder === undefined) return;
    for (const owner of namesIn(folder)) {
      const path = join(folder, owner);
      const names = namesIn(path);
      const old = names.filter((name) => modifiedAt(join(path, name)) < now - maxAgeMs);
      for (const name of old) rmSync(join(path, name), { force: true });
      if (old.length === names.length && modifiedAt(path) < now - maxAgeMs)
        rmSync(path, { recursive: true, force: true });
    }
  }
}

/** Makes room for one more output. */
function removeOldest(folder: string): void {
  const paths = namesIn(folder).map((name) => join(folder, name));
  const newestFirst = paths.toSorted((a, b) => modifiedAt(b) - modifiedAt(a));
  for (const path of newestFirst.slice(maxOutputs - 1)) rmSync(path, { force: true });
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

const modifiedAt = (path: string): number => statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0;
