/** Worker thread of the recorder: it redacts secrets from the rack histories, writes them and deletes them. */
import { parentPort, workerData } from 'node:worker_threads';
import { type Call, Keeper, type KeeperData } from './recorder/histories/index.ts';

const port = parentPort;
if (!port) throw new Error('this file is a worker thread and cannot be run directly; the host starts it');
const keeper = new Keeper(workerData as KeeperData, (reply) => port.postMessage(reply));
port.on('message', (call: Call) => keeper.take(call));
