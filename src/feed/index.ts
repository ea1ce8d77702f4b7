/** Public interface of the observe feed: rows that the observe plane reads. */
export { Feed, type FeedOptions } from './feed.ts';
export { observedLab } from './observed-lab.ts';
