import type { Chat, ChatOptions, LoadProgress } from '../engine/types.ts';
import { type Failure, failureOf } from './failures.ts';
import { createStore, type Store } from './store.ts';

/** Source of the weights. */
export type Source =
  | { readonly from: 'embedded' }
  | { readonly from: 'url'; readonly url: string }
  | { readonly from: 'files'; readonly files: readonly File[] };

export type LoadState =
  | { readonly phase: 'none' }
  | { readonly phase: 'loading'; readonly source: Source; readonly progress: LoadProgress }
  | { readonly phase: 'ready'; readonly source: Source; readonly chat: Chat }
  | { readonly phase: 'cancelled'; readonly source: Source }
  | { readonly phase: 'failed'; readonly source: Source; readonly failure: Failure };

export interface Loader {
  readonly store: Store<LoadState>;
  /** Replaces the current model. Resolves when the new one is ready or has failed; never rejects. */
  readonly load: (source: Source) => Promise<void>;
  readonly cancel: () => void;
}

export const embeddedSource: Source = { from: 'embedded' };

const optionsOf = (source: Source): Pick<ChatOptions, 'model'> => {
  if (source.from === 'url') return { model: source.url };
  return source.from === 'files' ? { model: source.files } : {};
};

/** Loads one model at a time: the previous one frees its GPU memory before the next one loads. */
export function createLoader(createChat: (options: ChatOptions) => Promise<Chat>): Loader {
  const store = createStore<LoadState>({ phase: 'none' });
  let current = new AbortController();
  let chat: Chat | undefined;

  return {
    store,
    async load(source) {
      current.abort();
      const controller = new AbortController();
      current = controller;
      const isCurrent = () => current === controller;
      const publish = (progress: LoadProgress) => {
        if (isCurrent() && !controller.signal.aborted) store.set({ phase: 'loading', source, progress });
      };
      publish({ phase: 'adapter', message: 'Starting' });
      const previous = chat;
      chat = undefined;
      try {
        await previous?.close();
        if (!isCurrent()) return;
        const newChat = await createChat({
          ...optionsOf(source),
          signal: controller.signal,
          onProgress: publish,
        });
        if (!isCurrent() || controller.signal.aborted) {
          await newChat.close();
          return;
        }
        chat = newChat;
        store.set({ phase: 'ready', source, chat: newChat });
        const reason = await newChat.gone;
        if (!isCurrent() || chat !== newChat) return;
        chat = undefined;
        store.set({
          phase: 'failed',
          source,
          failure: { code: reason, message: 'The model has to be loaded again.' },
        });
      } catch (error) {
        if (!isCurrent() || controller.signal.aborted) return;
        store.set({ phase: 'failed', source, failure: failureOf(error) });
      }
    },
    cancel() {
      const now = store.get();
      if (now.phase !== 'loading') return;
      current.abort();
      store.set({ phase: 'cancelled', source: now.source });
    },
  };
}
