/** The page's side of a chat: posts requests to the worker and turns its messages into promises and streams. */
import type { ModelInfo } from '../../src/engine/index.ts';
import { Asked } from './asked.ts';
import { asChatError, ChatError, invalid } from './chat-error.ts';
import type { FromWorker, ToWorker } from './messages.ts';
import { violationsOf } from './request.ts';
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
const closingMs = 3000;

const reasons: Partial<Readonly<Record<ChatFailure, string>>> = {
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
  readonly #asked = new Map<number, Asked>();
  readonly #leave: (why: ChatFailure) => void;
  #next = 0;
  /** Set when the chat has ended. */
  #end: ChatError | undefined;
  #closing: Promise<void> | undefined;

  /** @param worker a worker that has loaded a model */
  constructor(worker: ChatWorker, { model, device }: { model: ModelInfo; device: DeviceFacts }) {
    this.#worker = worker;
    this.model = model;
    this.device = device;
    const { promise, resolve } = Promise.withResolvers<ChatFailure>();
    this.gone = promise;
    this.#leave = resolve;
    this.chat = { completions: { create: this.#create.bind(this) as Chat['chat']['completions']['create'] } };
    worker.addEventListener('message', ({ data }) => this.#hear(data));
    worker.addEventListener('error', (event) => {
      this.#finish(new ChatError('failed', `the engine failed: ${event.message}; load the model again`));
    });
  }

  async #create(
    request: ChatRequest,
    { signal }: AskOptions = {},
  ): Promise<AsyncIterable<ChatChunk> | ChatCompletion> {
    if (this.#end) throw this.#end;
    const wrong = violationsOf(request);
    if (wrong.length > 0) throw invalid(wrong);
    const id = this.#next++;
    const stop = () => this.#worker.postMessage({ type: 'stop', id }, []);
    const asked = new Asked(stop);
    this.#asked.set(id, asked);
    this.#worker.postMessage({ type: 'ask', id, request: plain(request) }, []);
    if (signal?.aborted) stop();
    signal?.addEventListener('abort', stop, { once: true });
    void asked.over.then(() => {
      this.#asked.delete(id);
      signal?.removeEventListener('abort', stop);
    });
    await asked.begun;
    return request.stream === true ? asked.chunks() : await asked.whole();
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    if (this.#end) return;
    const closed = new Promise<void>((resolve) => {
      this.#worker.addEventListener('message', ({ data }) => data.type === 'closed' && resolve());
      setTimeout(resolve, closingMs);
    });
    this.#fail(new ChatError('closed', reasons.closed ?? ''));
    this.#worker.postMessage({ type: 'close' }, []);
    await closed;
    this.#worker.terminate();
    this.#leave('closed');
  }

  #hear(said: FromWorker): void {
    if (said.type === 'chunk') this.#asked.get(said.id)?.take(said.chunk);
    else if (said.type === 'broken') this.#asked.get(said.id)?.fail(asChatError(said.failure));
    else if (said.type === 'digest') this.model.digest = said.digest;
    else if (said.type === 'gone')
      this.#finish(new ChatError(said.why, reasons[said.why] ?? 'the engine ended; load the model again'));
  }

  /** Fails all requests, now and in the future. */
  #fail(error: ChatError): void {
    this.#end ??= error;
    for (const asked of this.#asked.values()) asked.fail(error);
  }

  /** Fails all requests and terminates the worker. */
  #finish(error: ChatError): void {
    if (this.#end) return;
    this.#fail(error);
    this.#worker.terminate();
    this.#leave(error.code);
  }
}

/** A plain copy of a request: proxies of UI frameworks cannot be posted to a worker. */
const plain = ({ messages, stop, ...others }: ChatRequest): ChatRequest => ({
  ...others,
  messages: messages.map(({ role, content }) => ({ role, content })),
  ...(stop ? { stop: typeof stop === 'string' ? stop : [...stop] } : {}),
});
