/** Worker thread of the recorder: it redacts secrets from the rack histories, writes them and deletes them. */
import { parentPort, workerData } from 'node:worker_threads';
import { type WriterCall, HistoryWriter, type HistoryWriterData } from './recorder/histories/index.ts';

const port = parentPort;
if (!port) throw new Error('this file is a worker thread and cannot be run directly; the host starts it');
const keeper = new HistoryWriter(workerData as HistoryWriterData, (reply) => port.postMessage(reply));
port.on('message', (call: WriterCall) => keeper.handle(call));
