/** The engine in a worker of the page: loads one model, answers requests, and reports when its device is lost. */
import { type LoadedEngine, loadModel } from './load-model.ts';
import { streamAnswer } from './stream-answer.ts';
import { toErrorData } from './chat-error.ts';
import { toAnswerError, toLoadError } from './to-chat-error.ts';
import type { FromWorker, ToWorker } from './worker-messages.ts';

/** The members of a worker's global scope that are used here. */
interface Scope {
  postMessage(message: FromWorker, transfer: Transferable[]): void;
  addEventListener(type: 'message', listener: (event: MessageEvent<ToWorker>) => void): void;
}
const scope = globalThis as unknown as Scope;
const post = (message: FromWorker): void => scope.postMessage(message, []);

let loaded: LoadedEngine | undefined;
/** Abort controllers of answers in progress, by request id. */
const abortControllers = new Map<number, AbortController>();

async function loadAndReport({ model, contextLength }: Extract<ToWorker, { type: 'load' }>): Promise<void> {
  try {
    loaded = await loadModel(model, contextLength, (progress) => post({ type: 'progress', progress }));
  } catch (error) {
    post({ type: 'failed', failure: toErrorData(toLoadError(error, model)) });
    return;
  }
  const { engine, device } = loaded;
  post({ type: 'ready', model: engine.model, device });
  engine.digest.then(
    (digest) => post({ type: 'digest', digest }),
    // The file was deleted in the meantime; the weights are already on the GPU.
    () => {},
  );
  await loaded.deviceLost;
  post({ type: 'gone', why: 'device_lost' });
}

async function answerRequest({ id, request }: Extract<ToWorker, { type: 'ask' }>): Promise<void> {
  if (!loaded) return;
  const controller = new AbortController();
  abortControllers.set(id, controller);
  try {
    for await (const chunk of streamAnswer(loaded.engine, request, controller.signal))
      post({ type: 'chunk', id, chunk });
  } catch (error) {
    post({ type: 'broken', id, failure: toErrorData(toAnswerError(error)) });
  } finally {
    abortControllers.delete(id);
  }
}

scope.addEventListener('message', ({ data }) => {
  switch (data.type) {
    case 'load':
      void loadAndReport(data);
      break;
    case 'ask':
      void answerRequest(data);
      break;
    case 'stop':
      abortControllers.get(data.id)?.abort();
      break;
    case 'close':
      void Promise.resolve(loaded?.engine.close()).finally(() => post({ type: 'closed' }));
      break;
  }
});
