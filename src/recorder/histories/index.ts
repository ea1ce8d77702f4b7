/** Exports for the writer thread. */
export { HistoryWriter } from './history-writer.ts';
export type { WriterCall, HistoryWriterData } from './protocol.ts';
