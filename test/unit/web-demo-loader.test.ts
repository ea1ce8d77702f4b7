import { describe, expect, it } from 'vitest';
import { createLoader, embeddedSource, type Source } from '../../web/demo/loader.ts';
import type { Chat, ChatFailure, ChatOptions } from '../../web/engine/types.ts';

const other: Source = { from: 'url', url: 'https://host/model.gguf' };

/** Chats created when the test resolves them. */
function scriptedEngine() {
  const log: string[] = [];
  const calls: {
    readonly options: ChatOptions;
    readonly make: () => { lose: (why: ChatFailure) => void };
    readonly refuse: (error: Error) => void;
  }[] = [];
  const createChat = (options: ChatOptions) =>
    new Promise<Chat>((resolve, reject) => {
      const name = options.model === undefined ? 'embedded' : 'other';
      log.push(`create ${name}`);
      calls.push({
        options,
        make() {
          const { promise: gone, resolve: lose } = Promise.withResolvers<ChatFailure>();
          resolve({
            gone,
            close: async () => {
              log.push(`close ${name}`);
              lose('closed');
            },
          } as Chat);
          return { lose };
        },
        refuse: reject,
      });
    });
  return { createChat, calls, log };
}

const settled = () => new Promise((resolve) => setTimeout(resolve));

describe('the loader of the demo', () => {
  it('reports progress, then the model', async () => {
    const { createChat, calls } = scriptedEngine();
    const loader = createLoader(createChat);
    void loader.load(other);
    await settled();
    expect(calls[0]?.options.model).toBe('https://host/model.gguf');
    calls[0]?.options.onProgress?.({ phase: 'download', message: 'Downloading', done: 1, total: 4 });
    expect(loader.store.get()).toMatchObject({
      phase: 'loading',
      source: other,
      progress: { done: 1, total: 4 },
    });
    calls[0]?.make();
    await settled();
    expect(loader.store.get()).toMatchObject({ phase: 'ready', source: other });
  });

  it('frees a model before it loads the next', async () => {
    const { createChat, calls, log } = scriptedEngine();
    const loader = createLoader(createChat);
    void loader.load(embeddedSource);
    await settled();
    calls[0]?.make();
    await settled();
    void loader.load(other);
    await settled();
    expect(log).toEqual(['create embedded', 'close embedded', 'create other']);
    expect(loader.store.get().phase).toBe('loading');
  });

  it('aborts a load when another starts, and closes its model if it loads anyway', async () => {
    const { createChat, calls, log } = scriptedEngine();
    const loader = createLoader(createChat);
    void loader.load(embeddedSource);
    await settled();
    void loader.load(other);
    await settled();
    expect(calls[0]?.options.signal?.aborted).toBe(true);
    calls[1]?.make();
    await settled();
    calls[0]?.make();
    await settled();
    expect(log.at(-1)).toBe('close embedded');
    expect(loader.store.get()).toMatchObject({ phase: 'ready', source: other });
  });

  it('cancels at once, and ignores later events of the load', async () => {
    const { createChat, calls } = scriptedEngine();
    const loader = createLoader(createChat);
    void loader.load(other);
    await settled();
    loader.cancel();
    expect(loader.store.get()).toEqual({ phase: 'cancelled', source: other });
    calls[0]?.options.onProgress?.({ phase: 'download', message: 'Downloading', done: 2, total: 4 });
    calls[0]?.refuse(new Error('aborted'));
    await settled();
    expect(loader.store.get()).toEqual({ phase: 'cancelled', source: other });
  });

  it.each([
    [Object.assign(new Error('4.2 GB of 1.1 GB'), { code: 'quota_exceeded' }), 'quota_exceeded'],
    [Object.assign(new Error('what'), { code: 'unheard_of' }), 'failed'],
    [new Error('plain'), 'failed'],
  ])('reports why a load failed: %s', async (error, code) => {
    const { createChat, calls } = scriptedEngine();
    const loader = createLoader(createChat);
    void loader.load(other);
    await settled();
    calls[0]?.refuse(error);
    await settled();
    expect(loader.store.get()).toEqual({
      phase: 'failed',
      source: other,
      failure: { code, message: error.message },
    });
  });

  it('reports a lost device', async () => {
    const { createChat, calls } = scriptedEngine();
    const loader = createLoader(createChat);
    void loader.load(embeddedSource);
    await settled();
    const chat = calls[0]?.make();
    await settled();
    chat?.lose('device_lost');
    await settled();
    expect(loader.store.get()).toMatchObject({ phase: 'failed', failure: { code: 'device_lost' } });
  });
});
