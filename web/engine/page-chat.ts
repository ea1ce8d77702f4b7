/** The page's side of a chat: posts requests to the worker and turns its messages into promises and streams. */
import type { ModelInfo } from '../../src/engine/index.ts';
import { PendingAnswer } from './pending-answer.ts';
import { fromErrorData, ChatError, invalidRequest } from './chat-error.ts';
import type { FromWorker, ToWorker } from './worker-messages.ts';
import { requestViolations } from './validate-request.ts';
import type {
  AskOptions,
  Chat,
  ChatChunk,
  ChatCompletion,
  ChatFailure,
  ChatRequest,
  DeviceFacts,
} from './types.ts';

/** The members of `Worker` that are used here. */
export interface ChatWorker {
  postMessage(message: ToWorker, transfer: Transferable[]): void;
  addEventListener(type: 'message', listener: (event: MessageEvent<FromWorker>) => void): void;
  addEventListener(type: 'error', listener: (event: ErrorEvent) => void): void;
  terminate(): void;
}

/** How long a worker may take to free its GPU memory before it is terminated. */
const closeTimeoutMs = 3000;

const endMessages: Partial<Readonly<Record<ChatFailure, string>>> = {
  closed: 'this chat is closed; create a new one with createChat',
  device_lost:
    'the GPU was lost: its driver was restarted, or it has no memory left; load the model again, or a smaller one',
};

export class PageChat implements Chat {
  readonly model: ModelInfo;
  readonly device: DeviceFacts;
  readonly gone: Promise<ChatFailure>;
  readonly chat: Chat['chat'];
  readonly #worker: ChatWorker;
  readonly #pending = new Map<number, PendingAnswer>();
  readonly #resolveGone: (why: ChatFailure) => void;
  #nextId = 0;
  /** Set when the chat has ended. */
  #endError: ChatError | undefined;
  #closing: Promise<void> | undefined;

  /** @param worker a worker that has loaded a model */
  constructor(worker: ChatWorker, { model, device }: { model: ModelInfo; device: DeviceFacts }) {
    this.#worker = worker;
    this.model = model;
    this.device = device;
    const { promise, resolve } = Promise.withResolvers<ChatFailure>();
    this.gone = promise;
    this.#resolveGone = resolve;
    this.chat = { completions: { create: this.#create.bind(this) as Chat['chat']['completions']['create'] } };
    worker.addEventListener('message', ({ data }) => this.#handleMessage(data));
    worker.addEventListener('error', (event) => {
      this.#finish(new ChatError('failed', `the engine failed: ${event.message}; load the model again`));
    });
  }

  async #create(
    request: ChatRequest,
    { signal }: AskOptions = {},
  ): Promise<AsyncIterable<ChatChunk> | ChatCompletion> {
    if (this.#endError) throw this.#endError;
    const violations = requestViolations(request);
    if (violations.length > 0) throw invalidRequest(violations);
    const id = this.#nextId++;
    const stop = () => this.#worker.postMessage({ type: 'stop', id }, []);
    const pending = new PendingAnswer(stop);
    this.#pending.set(id, pending);
    this.#worker.postMessage({ type: 'ask', id, request: toPlainRequest(request) }, []);
    if (signal?.aborted) stop();
    signal?.addEventListener('abort', stop, { once: true });
    void pending.ended.then(() => {
      this.#pending.delete(id);
      signal?.removeEventListener('abort', stop);
    });
    await pending.accepted;
    return request.stream === true ? pending.chunks() : await pending.collect();
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    if (this.#endError) return;
    const closed = new Promise<void>((resolve) => {
      this.#worker.addEventListener('message', ({ data }) => data.type === 'closed' && resolve());
      setTimeout(resolve, closeTimeoutMs);
    });
    this.#fail(new ChatError('closed', endMessages.closed ?? ''));
    this.#worker.postMessage({ type: 'close' }, []);
    await closed;
    this.#worker.terminate();
    this.#resolveGone('closed');
  }

  #handleMessage(message: FromWorker): void {
    if (message.type === 'chunk') this.#pending.get(message.id)?.push(message.chunk);
    else if (message.type === 'broken') this.#pending.get(message.id)?.fail(fromErrorData(message.failure));
    else if (message.type === 'digest') this.model.digest = message.digest;
    else if (message.type === 'gone')
      this.#finish(
        new ChatError(message.why, endMessages[message.why] ?? 'the engine ended; load the model again'),
      );
  }

  /** Fails all requests, now and in the future. */
  #fail(error: ChatError): void {
    this.#endError ??= error;
    for (const pending of this.#pending.values()) pending.fail(error);
  }

  /** Fails all requests and terminates the worker. */
  #finish(error: ChatError): void {
    if (this.#endError) return;
    this.#fail(error);
    this.#worker.terminate();
    this.#resolveGone(error.code);
  }
}

/** A plain copy of a request: proxies of UI frameworks cannot be posted to a worker. */
const toPlainRequest = ({ messages, stop, ...others }: ChatRequest): ChatRequest => ({
  ...others,
  messages: messages.map(({ role, content }) => ({ role, content })),
  ...(stop ? { stop: typeof stop === 'string' ? stop : [...stop] } : {}),
});
