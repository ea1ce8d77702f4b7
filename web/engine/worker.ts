/** The engine in a worker of the page: loads one model, answers requests, and reports when its device is lost. */
import { type Answering, load } from './loading.ts';
import { answer } from './answer.ts';
import { asFailure } from './chat-error.ts';
import { answerFailure, loadFailure } from './failure-of.ts';
import type { FromWorker, ToWorker } from './messages.ts';

/** The members of a worker's global scope that are used here. */
interface Scope {
  postMessage(message: FromWorker, transfer: Transferable[]): void;
  addEventListener(type: 'message', listener: (event: MessageEvent<ToWorker>) => void): void;
}
const scope = globalThis as unknown as Scope;
const say = (message: FromWorker): void => scope.postMessage(message, []);

let answering: Answering | undefined;
/** Abort controllers of answers in progress, by request id. */
const stops = new Map<number, AbortController>();

async function begin({ model, contextLength }: Extract<ToWorker, { type: 'load' }>): Promise<void> {
  try {
    answering = await load(model, contextLength, (progress) => say({ type: 'progress', progress }));
  } catch (error) {
    say({ type: 'failed', failure: asFailure(loadFailure(error, model)) });
    return;
  }
  const { engine, device } = answering;
  say({ type: 'ready', model: engine.model, device });
  engine.digest.then(
    (digest) => say({ type: 'digest', digest }),
    // The file was deleted in the meantime; the weights are already on the GPU.
    () => {},
  );
  await answering.lost;
  say({ type: 'gone', why: 'device_lost' });
}

async function ask({ id, request }: Extract<ToWorker, { type: 'ask' }>): Promise<void> {
  if (!answering) return;
  const stop = new AbortController();
  stops.set(id, stop);
  try {
    for await (const chunk of answer(answering.engine, request, stop.signal))
      say({ type: 'chunk', id, chunk });
  } catch (error) {
    say({ type: 'broken', id, failure: asFailure(answerFailure(error)) });
  } finally {
    stops.delete(id);
  }
}

scope.addEventListener('message', ({ data }) => {
  switch (data.type) {
    case 'load':
      void begin(data);
      break;
    case 'ask':
      void ask(data);
      break;
    case 'stop':
      stops.get(data.id)?.abort();
      break;
    case 'close':
      void Promise.resolve(answering?.engine.close()).finally(() => say({ type: 'closed' }));
      break;
  }
});
