/** Public interface of the observe feed: rows that the observe plane reads. */
export { ObserveFeed, type ObserveFeedOptions } from './feed.ts';
export { observeLab } from './observed-lab.ts';
