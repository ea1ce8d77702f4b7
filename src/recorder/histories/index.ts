/** Exports for the writer thread. */
export { Keeper } from './keeper.ts';
export type { Call, KeeperData } from './protocol.ts';
