/** Exports for the writer thread. */
export { HistoryWriter } from './keeper.ts';
export type { WriterCall, HistoryWriterData } from './protocol.ts';
