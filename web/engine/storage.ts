/** The engine's folders in the private file system (OPFS) of the page's origin. */
import type { StorageFolder, StorageEstimate } from '../../src/platform/browser-storage.ts';
import type { Locks } from '../../src/platform/model-cache-records.ts';

export interface PageStorage {
  readonly models: StorageFolder;
  /** Kernel tuning results for the GPU. */
  readonly tuning: StorageFolder;
  readonly locks: Locks;
  readonly room: () => Promise<StorageEstimate>;
}

/** Undefined when there is none: in private windows of some browsers, and when storage is blocked. */
export async function openStorage(): Promise<PageStorage | undefined> {
  const { storage, locks } = navigator as Partial<Navigator>;
  if (!storage?.getDirectory || !locks) return undefined;
  try {
    const root = (await storage.getDirectory()) as unknown as StorageFolder;
    const lathe = await root.getDirectoryHandle('lathe', { create: true });
    return {
      models: await lathe.getDirectoryHandle('models', { create: true }),
      tuning: await lathe.getDirectoryHandle('tuning', { create: true }),
      locks: locks as unknown as Locks,
      room: () => storage.estimate(),
    };
  } catch {
    return undefined;
  }
}
