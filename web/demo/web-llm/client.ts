import type { ChatBackend } from '../conversation.ts';
import { samplingMembers } from '../settings.ts';
import { createStore, type Store } from '../store.ts';
import type { FromWorker, ListedModel, ToWorker } from './protocol.ts';

export type WebLlmState =
  | { readonly phase: 'starting' }
  | { readonly phase: 'listed' }
  | { readonly phase: 'loading'; readonly id: string; readonly share: number; readonly message: string }
  | { readonly phase: 'ready'; readonly id: string; readonly backend: ChatBackend }
  | {
      readonly phase: 'failed';
      readonly id: string | undefined;
      readonly message: string;
      readonly blocked: string | undefined;
    };

export interface WebLlm {
  readonly state: Store<WebLlmState>;
  readonly models: Store<readonly ListedModel[]>;
  readonly load: (id: string) => void;
  /** Cancels loading, or frees the loaded model. */
  readonly unload: () => void;
  readonly close: () => void;
}

/** Starts the worker. It loads web-llm's code from this page's origin, and contacts no other server before `load`. */
export function openWebLlm(): WebLlm {
  const state = createStore<WebLlmState>({ phase: 'starting' });
  const models = createStore<readonly ListedModel[]>([]);
  let worker = start();
  let onAnswerMessage: ((message: FromWorker) => void) | undefined;

  function start(): Worker {
    const newWorker = new Worker(new URL('./web-llm-worker.ts', import.meta.url), {
      type: 'module',
      name: 'web-llm',
    });
    newWorker.addEventListener('message', ({ data }: MessageEvent<FromWorker>) => handleMessage(data));
    newWorker.addEventListener('error', ({ message }) => {
      handleMessage({
        kind: 'failed',
        message: message || 'web-llm could not be loaded.',
        blocked: undefined,
      });
    });
    return newWorker;
  }

  function restart(): void {
    worker.terminate();
    worker = start();
  }

  function handleMessage(event: FromWorker): void {
    if (onAnswerMessage) return onAnswerMessage(event);
    const now = state.get();
    if (event.kind === 'models') {
      models.set(event.models);
      if (now.phase === 'starting') state.set({ phase: 'listed' });
    }
    if (event.kind === 'progress' && now.phase === 'loading')
      state.set({ ...now, share: event.share, message: event.message });
    if (event.kind === 'loaded' && now.phase === 'loading')
      state.set({ phase: 'ready', id: now.id, backend: backendOf(now.id) });
    if (event.kind === 'failed') {
      const { message, blocked } = event;
      state.set({ phase: 'failed', id: now.phase === 'loading' ? now.id : undefined, message, blocked });
    }
  }

  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- workers have no target origin
  const post = (message: ToWorker) => worker.postMessage(message);

  const backendOf = (id: string): ChatBackend => ({
    engine: 'web-llm',
    model: id,
    async *ask(messages, sampling, signal) {
      const queue: FromWorker[] = [];
      let resolveWait: (() => void) | undefined;
      onAnswerMessage = (message) => {
        queue.push(message);
        resolveWait?.();
      };
      const stop = () => post({ kind: 'stop' });
      signal.addEventListener('abort', stop);
      post({ kind: 'ask', messages, sampling: samplingMembers(sampling, { forWebLlm: true }) });
      try {
        for (;;) {
          const next = queue.shift();
          if (next === undefined) {
            await new Promise<void>((resolve) => {
              resolveWait = resolve;
            });
            continue;
          }
          if (next.kind === 'failed') throw new Error(next.message);
          if (next.kind === 'text') yield { text: next.text };
          if (next.kind !== 'answered') continue;
          const { finish: finishReason, measured } = next;
          yield { ...(finishReason && { finishReason }), ...(measured && { measured }) };
          return;
        }
      } finally {
        onAnswerMessage = undefined;
        signal.removeEventListener('abort', stop);
      }
    },
  });

  return {
    state,
    models,
    load(id) {
      // A failed engine is not reused.
      if (state.get().phase === 'failed') restart();
      state.set({ phase: 'loading', id, share: 0, message: 'Starting' });
      post({ kind: 'load', id });
    },
    unload() {
      restart();
      state.set({ phase: 'starting' });
    },
    close: () => worker.terminate(),
  };
}
