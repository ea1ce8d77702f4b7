import type { Answerer } from '../conversation.ts';
import { requestedSampling } from '../settings.ts';
import { createStore, type Store } from '../store.ts';
import type { FromWorker, ListedModel, ToWorker } from './protocol.ts';

export type WebLlmState =
  | { readonly phase: 'starting' }
  | { readonly phase: 'listed' }
  | { readonly phase: 'loading'; readonly id: string; readonly share: number; readonly message: string }
  | { readonly phase: 'ready'; readonly id: string; readonly answerer: Answerer }
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
  let asked: ((message: FromWorker) => void) | undefined;

  function start(): Worker {
    const made = new Worker(new URL('./web-llm-worker.ts', import.meta.url), {
      type: 'module',
      name: 'web-llm',
    });
    made.addEventListener('message', ({ data }: MessageEvent<FromWorker>) => hear(data));
    made.addEventListener('error', ({ message }) => {
      hear({ kind: 'failed', message: message || 'web-llm could not be loaded.', blocked: undefined });
    });
    return made;
  }

  function restart(): void {
    worker.terminate();
    worker = start();
  }

  function hear(said: FromWorker): void {
    if (asked) return asked(said);
    const now = state.get();
    if (said.kind === 'models') {
      models.set(said.models);
      if (now.phase === 'starting') state.set({ phase: 'listed' });
    }
    if (said.kind === 'progress' && now.phase === 'loading')
      state.set({ ...now, share: said.share, message: said.message });
    if (said.kind === 'loaded' && now.phase === 'loading')
      state.set({ phase: 'ready', id: now.id, answerer: answererOf(now.id) });
    if (said.kind === 'failed') {
      const { message, blocked } = said;
      state.set({ phase: 'failed', id: now.phase === 'loading' ? now.id : undefined, message, blocked });
    }
  }

  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- workers have no target origin
  const tell = (message: ToWorker) => worker.postMessage(message);

  const answererOf = (id: string): Answerer => ({
    engine: 'web-llm',
    model: id,
    async *ask(messages, sampling, signal) {
      const heard: FromWorker[] = [];
      let wake: (() => void) | undefined;
      asked = (message) => {
        heard.push(message);
        wake?.();
      };
      const stop = () => tell({ kind: 'stop' });
      signal.addEventListener('abort', stop);
      tell({ kind: 'ask', messages, sampling: requestedSampling(sampling, { shared: true }) });
      try {
        for (;;) {
          const next = heard.shift();
          if (next === undefined) {
            await new Promise<void>((resolve) => {
              wake = resolve;
            });
            continue;
          }
          if (next.kind === 'failed') throw new Error(next.message);
          if (next.kind === 'text') yield { text: next.text };
          if (next.kind !== 'answered') continue;
          const { finish, measured } = next;
          yield { ...(finish && { finish }), ...(measured && { measured }) };
          return;
        }
      } finally {
        asked = undefined;
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
      tell({ kind: 'load', id });
    },
    unload() {
      restart();
      state.set({ phase: 'starting' });
    },
    close: () => worker.terminate(),
  };
}
