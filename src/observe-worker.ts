/** Worker thread that reads SQLite for the observe plane. The plane terminates it when a statement takes too long. */
import { parentPort, workerData } from 'node:worker_threads';
import { serveReads } from './observe/readers/serve-reads.ts';
import type { ReadRequest, ReaderThreadData } from './observe/readers/messages.ts';

const port = parentPort;
if (!port) throw new Error('this file is a worker thread and cannot be run directly; the host starts it');
const answer = serveReads(workerData as ReaderThreadData);
port.on('message', (question: ReadRequest) => port.postMessage(answer(question)));
port.postMessage({ ready: true });
