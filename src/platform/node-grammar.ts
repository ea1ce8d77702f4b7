import { Worker } from 'node:worker_threads';
import type { GrammarWorker, Reply } from '../grammar/index.ts';

/** A grammar worker as a thread. @param path of its entry */
export function grammarThread(path: string): GrammarWorker {
  // Its outputs are kept here: the library writes notes to them that are of no use to anybody.
  const worker = new Worker(path, {
    stdout: true,
    stderr: true,
    execArgv: ['--disable-warning=ExperimentalWarning'],
    resourceLimits: { maxOldGenerationSizeMb: 512, stackSizeMb: 4 },
  });
  worker.stdout.resume();
  worker.stderr.resume();
  // A thread that waits must not keep the process.
  worker.unref();
  return {
    post: (message, transfer) => worker.postMessage(message, [...transfer]),
    onReply: (listener) => worker.on('message', (reply: Reply) => listener(reply)),
    onEnd(listener) {
      worker.on('error', (error: Error) => listener(error.message));
      worker.on('exit', (code) => listener(`the grammar thread ended with code ${code}`));
    },
    terminate: () => void worker.terminate(),
  };
}
