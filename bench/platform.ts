import { type DawnFeature, dawnFeatureNames, type Platform } from '../src/engine/index.ts';
import { nodePlatform } from '../src/platform/node.ts';
import { cacheDir, fileStore } from '../src/platform/node-store.ts';

/** The platform of the host with its store, so that benches use the same tuned kernels. */
export const benchPlatform = (): Platform => nodePlatform(fileStore(cacheDir(process.env)));

/** The value of `--dawn-features`. @throws Error for an unknown name, which Dawn would ignore */
export const readDawnFeatures = (list = ''): DawnFeature[] =>
  list
    .split(',')
    .filter((name) => name !== '')
    .map((name) => {
      const feature = dawnFeatureNames.find((known) => known === name);
      if (feature !== undefined) return feature;
      throw new Error(`no feature of Dawn '${name}' (known: ${dawnFeatureNames.join(', ')})`);
    });
