import type { Chat, ChatOptions, LoadProgress } from '../engine/types.ts';
import { type Failure, failureOf } from './failures.ts';
import { createStore, type Store } from './store.ts';

/** Source of the weights. */
export type Source =
  | { readonly from: 'embedded' }
  | { readonly from: 'url'; readonly url: string }
  | { readonly from: 'files'; readonly files: readonly File[] };

export type Loaded =
  | { readonly phase: 'none' }
  | { readonly phase: 'loading'; readonly source: Source; readonly progress: LoadProgress }
  | { readonly phase: 'ready'; readonly source: Source; readonly chat: Chat }
  | { readonly phase: 'cancelled'; readonly source: Source }
  | { readonly phase: 'failed'; readonly source: Source; readonly failure: Failure };

export interface Loader {
  readonly store: Store<Loaded>;
  /** Replaces the current model. Resolves when the new one is ready or has failed; never rejects. */
  readonly load: (source: Source) => Promise<void>;
  readonly cancel: () => void;
}

export const embedded: Source = { from: 'embedded' };

const optionsOf = (source: Source): Pick<ChatOptions, 'model'> => {
  if (source.from === 'url') return { model: source.url };
  return source.from === 'files' ? { model: source.files } : {};
};

/** Loads one model at a time: the previous one frees its GPU memory before the next one loads. */
export function createLoader(createChat: (options: ChatOptions) => Promise<Chat>): Loader {
  const store = createStore<Loaded>({ phase: 'none' });
  let current = new AbortController();
  let chat: Chat | undefined;

  return {
    store,
    async load(source) {
      current.abort();
      const mine = new AbortController();
      current = mine;
      const isCurrent = () => current === mine;
      const show = (progress: LoadProgress) => {
        if (isCurrent() && !mine.signal.aborted) store.set({ phase: 'loading', source, progress });
      };
      show({ phase: 'adapter', message: 'Starting' });
      const before = chat;
      chat = undefined;
      try {
        await before?.close();
        if (!isCurrent()) return;
        const made = await createChat({ ...optionsOf(source), signal: mine.signal, onProgress: show });
        if (!isCurrent() || mine.signal.aborted) {
          await made.close();
          return;
        }
        chat = made;
        store.set({ phase: 'ready', source, chat: made });
        const why = await made.gone;
        if (!isCurrent() || chat !== made) return;
        chat = undefined;
        store.set({
          phase: 'failed',
          source,
          failure: { code: why, message: 'The loaded model was lost with it.' },
        });
      } catch (error) {
        if (!isCurrent() || mine.signal.aborted) return;
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
