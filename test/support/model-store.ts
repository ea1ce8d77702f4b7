import { DataDirStore } from '../../src/cli/store/data-dir-store.ts';
import { repository } from './host.ts';

/** The store of a data directory, with nothing to pull. @param roleOf by default nothing is in use */
export const storeAt = (
  dataDir: string,
  roleOf: ConstructorParameters<typeof DataDirStore>[0]['roleOf'] = () => undefined,
) =>
  new DataDirStore({
    cli: {
      env: {},
      packageRoot: repository,
      pull: () => Promise.reject(new Error('this store pulls nothing')),
    },
    dataDir,
    roleOf,
  });
