/** Worker thread that compiles grammars and matches tokens. The host terminates it when a request takes too long. */
import { parentPort } from 'node:worker_threads';
import { type Question, serveGrammars } from './grammar/index.ts';
import { limitMemory, loadGrammarLibrary } from './platform/node-grammar-library.ts';

const port = parentPort;
if (!port) throw new Error('grammar-worker must be started by the host as a worker thread');
const memory = limitMemory();
const answer = serveGrammars(loadGrammarLibrary(), memory, (reply) => {
  const { value } = 'value' in reply ? reply : { value: undefined };
  port.postMessage(reply, value instanceof Uint32Array ? [value.buffer as ArrayBuffer] : []);
});
port.on('message', (message: { call: number; question: Question }) => answer(message));
