/** The only door of the feed: what happened, as rows that the observe plane reads. */
export { Feed, type FeedOptions } from './feed.ts';
export { observedLab } from './observed-lab.ts';
