import type { Platform } from '../src/engine/index.ts';
import { nodePlatform } from '../src/platform/node.ts';
import { cacheDir, fileStore } from '../src/platform/node-store.ts';

/** The host's own platform: with its store, so that kernels are chosen here as they are there. */
export const benchPlatform = (): Platform => nodePlatform(fileStore(cacheDir(process.env)));
