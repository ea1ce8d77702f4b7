/** The thread that has the recorder's histories: it takes secrets out, writes and removes. */
import { parentPort, workerData } from 'node:worker_threads';
import { type Call, Keeper, type KeeperData } from './recorder/histories/index.ts';

const port = parentPort;
if (!port) throw new Error('this is no program of its own: the host starts it');
const keeper = new Keeper(workerData as KeeperData, (reply) => port.postMessage(reply));
port.on('message', (call: Call) => keeper.take(call));
