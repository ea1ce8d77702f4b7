/** Walks through files and folders as staged changes would leave them. */
import { basename, dirname } from 'node:path';
import type { ToolContext } from '../../tool.ts';
import { type AllowedPath, type Confinement, retryWhenSwapped } from '../paths/confinement.ts';
import { type Entry, type Folder, PathSwapped } from '../paths/folder.ts';
import { Refusal, systemErrorCode } from '../refusal.ts';
import { openFound } from './staged-file.ts';
import { isInPlace, mergeStaged, type ViewFolder } from './staged-view.ts';

/** A folder on the way down: what lies on the disk, and what is staged in it. */
export interface SeenFolder {
  readonly folder: Folder | undefined;
  readonly staged: ViewFolder | undefined;
}

export const goneRefusal = (shown: string, reason?: string) =>
  new Refusal(
    `${shown}: there is no such file or folder${reason === undefined ? '' : ` any more, ${reason}`}.`,
  );

/** Entries as the staged changes would leave them. */
export async function readEntries(
  { folder, staged }: SeenFolder,
  limit: number,
): Promise<{ entries: readonly Entry[]; more: boolean }> {
  const { entries, more } = (await folder?.entries(limit)) ?? { entries: [], more: false };
  return { entries: mergeStaged(entries, staged), more };
}

export class ViewReader {
  readonly #confinement: Confinement;
  readonly #context: Pick<ToolContext, 'grants'>;

  constructor(confinement: Confinement, context: Pick<ToolContext, 'grants'>) {
    this.#confinement = confinement;
    this.#context = context;
  }

  /** Kind of what lies on the disk. */
  async kindAt(allowed: AllowedPath, real: string | undefined): Promise<Entry['kind'] | undefined> {
    if (real === undefined) return undefined;
    return await openFound(this.#confinement, { allowed, real }, this.#context, async (parent, name) => {
      const kind = name === '' ? 'folder' : await parent.kind(name);
      // Links were resolved, so it was put there meanwhile.
      if (kind === 'link') throw new PathSwapped(real);
      return kind;
    });
  }

  /** Opens the parent folder of what lies on the disk. */
  async openParent(
    allowed: AllowedPath,
    real: string,
    use: (folder: Folder, name: string) => Promise<void>,
  ): Promise<void> {
    await openFound(this.#confinement, { allowed, real }, this.#context, use);
  }

  /**
   * Opens a folder of the disk, and calls `use` again where the folder was replaced meanwhile.
   * @param use is called without a folder where there is none, as for one that is only staged
   */
  async openFolder(
    allowed: AllowedPath,
    real: string | undefined,
    use: (folder: Folder | undefined) => Promise<void>,
  ): Promise<void> {
    const { shown } = allowed;
    await retryWhenSwapped(shown, async () => {
      const kind = await this.kindAt(allowed, real);
      if (kind === undefined || real === undefined) {
        await use(undefined);
        return;
      }
      if (kind !== 'folder') throw new Refusal(`${shown} is no folder; fs_read reads files.`);
      const folder = await this.#confinement.open(real);
      try {
        await use(folder);
      } finally {
        await folder.close();
      }
    });
  }

  /** Visits a subfolder. One that is gone, unreadable or forbidden is skipped. */
  async visitSubfolder(
    { folder, staged }: SeenFolder,
    name: string,
    visit: (inner: SeenFolder) => Promise<void>,
  ): Promise<void> {
    const child = staged?.children.get(name);
    const inner = child?.kind === 'folder' ? child : undefined;
    await this.#visit(
      async () => {
        if (!staged || isInPlace(staged, name, child))
          return folder && (inner === undefined || (await folder.kind(name)) === 'folder')
            ? await folder.openFolder(name)
            : undefined;
        return inner?.real === undefined ? undefined : await this.#openMoved(inner.real);
      },
      async (opened) => {
        if (opened || inner) await visit({ folder: opened, staged: inner });
      },
    );
  }

  /** Visits a file of a folder, which may still lie elsewhere. One that cannot be reached is skipped. */
  async visitFile(
    { folder, staged }: SeenFolder,
    name: string,
    visit: (folder: Folder, name: string) => Promise<void>,
  ): Promise<void> {
    const child = staged?.children.get(name);
    if (child?.kind !== 'file') {
      if (folder) await visit(folder, name);
      return;
    }
    const { real } = child;
    await this.#visit(
      () => this.#openMoved(dirname(real)),
      async (opened) => {
        if (opened) await visit(opened, basename(real));
      },
    );
  }

  async #visit(
    open: () => Promise<Folder | undefined>,
    visit: (folder: Folder | undefined) => Promise<void>,
  ): Promise<void> {
    let folder: Folder | undefined;
    try {
      folder = await open();
    } catch (error) {
      if (error instanceof PathSwapped || error instanceof Refusal || systemErrorCode(error) !== undefined)
        return;
      throw error;
    }
    try {
      await visit(folder);
    } catch (error) {
      if (systemErrorCode(error) === undefined) throw error;
    } finally {
      await folder?.close();
    }
  }

  /** Opens a folder that still lies elsewhere, if the grants allow that; undefined for one that is only staged. */
  async #openMoved(real: string): Promise<Folder | undefined> {
    const scope = { grants: this.#context.grants, cwd: undefined };
    const { path, missing } = await this.#confinement.resolveAllowed(real, scope, 'write', false);
    if (path !== real) throw new PathSwapped(real);
    return missing.length > 0 ? undefined : await this.#confinement.open(real);
  }
}
