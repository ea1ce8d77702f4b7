/** The side of the histories that has a thread to itself. */
export { Keeper } from './keeper.ts';
export type { Call, KeeperData } from './protocol.ts';
