import type { Platform } from '../src/engine/index.ts';
import { nodePlatform } from '../src/platform/node.ts';
import { cacheDir, fileStore } from '../src/platform/node-store.ts';

/** The platform of the host with its store, so that benches use the same tuned kernels. */
export const benchPlatform = (): Platform => nodePlatform(fileStore(cacheDir(process.env)));
