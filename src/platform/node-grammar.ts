import { Worker } from 'node:worker_threads';
import type { GrammarWorker, GrammarReply } from '../grammar/index.ts';

/** Starts a grammar worker as a thread. @param path its entry file */
export function startGrammarThread(path: string): GrammarWorker {
  // Discard its output: the library prints useless notes.
  const worker = new Worker(path, {
    stdout: true,
    stderr: true,
    execArgv: ['--disable-warning=ExperimentalWarning'],
    resourceLimits: { maxOldGenerationSizeMb: 512, stackSizeMb: 4 },
  });
  worker.stdout.resume();
  worker.stderr.resume();
  // An idle thread must not keep the process alive.
  worker.unref();
  return {
    post: (message, transfer) => worker.postMessage(message, [...transfer]),
    onReply: (listener) => worker.on('message', (reply: GrammarReply) => listener(reply)),
    onEnd(listener) {
      worker.on('error', (error: Error) => listener(error.message));
      worker.on('exit', (code) => listener(`the grammar thread ended with code ${code}`));
    },
    terminate: () => void worker.terminate(),
  };
}
