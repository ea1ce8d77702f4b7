/** Worker thread that compiles grammars and matches tokens. The host terminates it when a request takes too long. */
import { parentPort } from 'node:worker_threads';
import { type GrammarRequest, serveGrammars } from './grammar/index.ts';
import { limitWasmMemory, loadGrammarLibrary } from './platform/node-grammar-library.ts';

const port = parentPort;
if (!port) throw new Error('grammar-worker must be started by the host as a worker thread');
const memory = limitWasmMemory();
const handleMessage = serveGrammars(loadGrammarLibrary(), memory, (reply) => {
  const { value } = 'value' in reply ? reply : { value: undefined };
  port.postMessage(reply, value instanceof Uint32Array ? [value.buffer as ArrayBuffer] : []);
});
port.on('message', (message: { call: number; question: GrammarRequest }) => handleMessage(message));
