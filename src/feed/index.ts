/** Public interface of the observe feed: rows that the observe plane reads. */
export { ObserveFeed, type ObserveFeedOptions } from './observe-feed.ts';
export { observeLab } from './observe-lab.ts';
export { StoredKernels } from './stored-kernels.ts';
