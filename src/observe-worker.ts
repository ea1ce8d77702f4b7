/** The thread that reads SQLite for the observe plane, which ends it when a statement takes too long. */
import { parentPort, workerData } from 'node:worker_threads';
import { serveReads } from './observe/readers/serve.ts';
import type { Question, ThreadData } from './observe/readers/messages.ts';

const port = parentPort;
if (!port) throw new Error('this is no program of its own: the host starts it');
const answer = serveReads(workerData as ThreadData);
port.on('message', (question: Question) => port.postMessage(answer(question)));
port.postMessage({ ready: true });
