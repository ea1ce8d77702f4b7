import { DataDirStore } from '../../src/cli/store/data-dir-store.ts';
import { repository } from './host.ts';

/** The store of a data directory, with nothing in use and nothing to pull. */
export const storeAt = (dataDir: string) =>
  new DataDirStore({
    cli: {
      env: {},
      packageRoot: repository,
      pull: () => Promise.reject(new Error('this store pulls nothing')),
    },
    dataDir,
    inUse: () => false,
  });
