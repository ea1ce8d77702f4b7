import { afterAll, beforeEach, describe, expect, it } from 'vitest';
import { settingsFromSearch } from '../../web/demo/settings.ts';
import { openWebLlm } from '../../web/demo/web-llm/client.ts';
import { toMeasured } from '../../web/demo/web-llm/measured.ts';
import type { FromWorker, ToWorker } from '../../web/demo/web-llm/protocol.ts';

/** A fake worker: it records received messages, and sends the messages of the test. */
class ScriptedWorker extends EventTarget {
  static all: ScriptedWorker[] = [];
  readonly sentMessages: ToWorker[] = [];
  isEnded = false;

  constructor() {
    super();
    ScriptedWorker.all.push(this);
  }
  postMessage(message: ToWorker): void {
    this.sentMessages.push(message);
  }
  terminate(): void {
    this.isEnded = true;
  }
  say(message: FromWorker): void {
    this.dispatchEvent(new MessageEvent('message', { data: message }));
  }
}

const { Worker: real } = globalThis as { Worker?: unknown };
const setWorker = (value: unknown) => Object.assign(globalThis, { Worker: value });
const current = () => {
  const last = ScriptedWorker.all.at(-1);
  if (!last) throw new Error('no worker was started');
  return last;
};

const listed = [{ id: 'tiny', weights: 'https://host/tiny/', gpuMegabytes: 9, features: [] }];
const { sampling } = settingsFromSearch('?top_k=40&temperature=0.5');
const settled = () => new Promise((resolve) => setTimeout(resolve));

/** With a loaded model. */
function loaded() {
  const webLlm = openWebLlm();
  current().say({ kind: 'models', models: listed });
  webLlm.load('tiny');
  current().say({ kind: 'loaded' });
  const state = webLlm.state.get();
  if (state.phase !== 'ready') throw new Error(`it is ${state.phase}`);
  return { webLlm, backend: state.backend };
}

describe('the web-llm adapter of the demo', () => {
  beforeEach(() => {
    ScriptedWorker.all = [];
    setWorker(ScriptedWorker);
  });
  afterAll(() => setWorker(real));

  it('lists models, and loads the requested one', () => {
    const webLlm = openWebLlm();
    expect(current().sentMessages).toEqual([]);
    current().say({ kind: 'models', models: listed });
    expect(webLlm.models.get()).toEqual(listed);
    expect(webLlm.state.get()).toEqual({ phase: 'listed' });
    webLlm.load('tiny');
    expect(current().sentMessages).toEqual([{ kind: 'load', id: 'tiny' }]);
    current().say({ kind: 'progress', share: 0.5, message: 'half' });
    expect(webLlm.state.get()).toEqual({ phase: 'loading', id: 'tiny', share: 0.5, message: 'half' });
    current().say({ kind: 'loaded' });
    expect(webLlm.state.get()).toMatchObject({
      phase: 'ready',
      backend: { engine: 'web-llm', model: 'tiny' },
    });
  });

  it('yields the chunks of an answer, sampled with the options that both engines have', async () => {
    const { backend } = loaded();
    const pieces: unknown[] = [];
    const reading = (async () => {
      const messages = [{ role: 'user', content: 'Hello' }] as const;
      for await (const piece of backend.ask(messages, sampling, new AbortController().signal))
        pieces.push(piece);
    })();
    await settled();
    expect(current().sentMessages.at(-1)).toEqual({
      kind: 'ask',
      messages: [{ role: 'user', content: 'Hello' }],
      sampling: { temperature: 0.5, top_p: 1, max_tokens: 256 },
    });
    current().say({ kind: 'text', text: 'Hi' });
    await settled();
    current().say({ kind: 'text', text: '!' });
    current().say({ kind: 'answered', finish: 'stop', measured: undefined });
    await reading;
    expect(pieces).toEqual([{ text: 'Hi' }, { text: '!' }, { finishReason: 'stop' }]);
  });

  it('stops an answer', async () => {
    const { backend } = loaded();
    const stop = new AbortController();
    const next = backend.ask([], sampling, stop.signal)[Symbol.asyncIterator]().next();
    await settled();
    stop.abort();
    expect(current().sentMessages.at(-1)).toEqual({ kind: 'stop' });
    current().say({ kind: 'answered', finish: undefined, measured: undefined });
    expect(await next).toEqual({ done: false, value: {} });
  });

  it('fails an answer without unloading the model', async () => {
    const { webLlm, backend } = loaded();
    const next = backend.ask([], sampling, new AbortController().signal)[Symbol.asyncIterator]().next();
    await settled();
    current().say({ kind: 'failed', message: 'too long', blocked: undefined });
    await expect(next).rejects.toThrow('too long');
    expect(webLlm.state.get().phase).toBe('ready');
  });

  it('reports why a model failed to load, and starts again with the next', () => {
    const webLlm = openWebLlm();
    const first = current();
    first.say({ kind: 'models', models: listed });
    webLlm.load('tiny');
    first.say({ kind: 'failed', message: 'Failed to fetch', blocked: 'https://huggingface.co' });
    expect(webLlm.state.get()).toEqual({
      phase: 'failed',
      id: 'tiny',
      message: 'Failed to fetch',
      blocked: 'https://huggingface.co',
    });
    webLlm.load('tiny');
    expect(first.isEnded).toBe(true);
    expect(current().sentMessages).toEqual([{ kind: 'load', id: 'tiny' }]);
    current().say({ kind: 'models', models: listed });
    expect(webLlm.state.get().phase).toBe('loading');
  });

  it('terminates the worker when a load is cancelled or web-llm is switched off', () => {
    const webLlm = openWebLlm();
    webLlm.load('tiny');
    const first = current();
    webLlm.unload();
    expect(first.isEnded).toBe(true);
    expect(webLlm.state.get()).toEqual({ phase: 'starting' });
    webLlm.close();
    expect(current().isEnded).toBe(true);
  });
});

describe('measurements of web-llm', () => {
  it('are converted to milliseconds', () => {
    const extra = { prefill_tokens_per_s: 100, decode_tokens_per_s: 50, time_per_output_token_s: 0.02 };
    expect(toMeasured({ prompt_tokens: 20, completion_tokens: 11, extra })).toEqual({
      promptTokens: 20,
      cachedTokens: 0,
      completionTokens: 11,
      prefillMs: 200,
      decodeMs: 200,
      tokensPerSecond: 50,
    });
  });

  it('have no rate for a single token', () => {
    const extra = { prefill_tokens_per_s: 0, decode_tokens_per_s: 0, time_per_output_token_s: 0 };
    expect(toMeasured({ prompt_tokens: 0, completion_tokens: 1, extra })).toMatchObject({
      prefillMs: 0,
      decodeMs: 0,
      tokensPerSecond: undefined,
    });
  });
});
