import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
/** Answers of the engine for pages: the worker's side on a scripted engine, the page's side on a scripted worker. */
import { describe, expect, it } from 'vitest';
import { EngineError, ModelFileError } from '../../src/engine/index.ts';
import { openHttpFile } from '../../src/platform/http-file.ts';
import { streamAnswer } from '../../web/engine/stream-answer.ts';
import { ChatError } from '../../web/engine/chat-error.ts';
import { toAnswerError, toLoadError } from '../../web/engine/to-chat-error.ts';
import type { FromWorker, ToWorker } from '../../web/engine/worker-messages.ts';
import { type ChatWorker, PageChat } from '../../web/engine/page-chat.ts';
import { throttleProgress } from '../../web/engine/progress.ts';
import type { ChatChunk, ChatRequest, DeviceFacts, LoadProgress } from '../../web/engine/types.ts';
import { type Script, ScriptedEngine } from '../support/scripted-engine.ts';
import { thinkingTemplate } from '../support/thinking-template.ts';

const ask = { messages: [{ role: 'user', content: 'Hi' }] } satisfies ChatRequest;
const never = new AbortController().signal;
const textOf = (chunks: readonly ChatChunk[]): string =>
  chunks.map(({ choices: [{ delta }] }) => delta.content ?? '').join('');
const all = async (chunks: AsyncIterable<ChatChunk>): Promise<ChatChunk[]> => {
  const found: ChatChunk[] = [];
  for await (const chunk of chunks) found.push(chunk);
  return found;
};

describe('an answer', () => {
  it('arrives in chunks; the last one has the finish reason and the usage', async () => {
    const engine = new ScriptedEngine({ cached: 3 });
    const chunks = await all(streamAnswer(engine, { ...ask, max_tokens: 3 }, never));
    expect(textOf(chunks)).toBe('Hello, world');
    expect(chunks[0]?.choices[0].delta).toEqual({ role: 'assistant', content: '' });
    const prompt = engine.requests[0]?.prompt.length ?? 0;
    expect(chunks.at(-1)).toMatchObject({
      object: 'chat.completion.chunk',
      model: 'scripted',
      choices: [{ index: 0, delta: {}, finish_reason: 'length' }],
      usage: { prompt_tokens: prompt, completion_tokens: 3, total_tokens: prompt + 3 },
      timings: {
        prompt_tokens: prompt,
        cached_tokens: 3,
        completion_tokens: 3,
        decode_tokens_per_second: 2000,
      },
    });
    expect(new Set(chunks.map(({ id }) => id)).size).toBe(1);
  });

  it('is sampled as on the OpenAI endpoints, and may fill the rest of the context', async () => {
    const engine = new ScriptedEngine({ contextLength: 100 });
    await all(streamAnswer(engine, ask, never));
    const [request] = engine.requests;
    expect(request?.maxTokens).toBe(100 - (request?.prompt.length ?? 0));
    expect(request?.sampling).toMatchObject({
      temperature: 1,
      topK: 0,
      topP: 1,
      minP: 0,
      repetitionPenalty: 1,
    });
    const given = {
      ...ask,
      seed: -1,
      top_k: -1,
      temperature: 0,
      min_p: 0.5,
      stop: 'x',
      frequency_penalty: 1,
    };
    await all(streamAnswer(engine, given, never));
    expect(engine.requests[1]?.sampling).toMatchObject({
      seed: 2 ** 32 - 1,
      topK: 0,
      temperature: 0,
      minP: 0.5,
      frequencyPenalty: 1,
    });
    expect(engine.requests[1]?.stop).toEqual(['x']);
  });

  it('keeps its text when stopped, at any point', async () => {
    for (const after of [0, 1, 3]) {
      const engine = new ScriptedEngine({ delayMs: 1 });
      const stop = new AbortController();
      const chunks: ChatChunk[] = [];
      if (after === 0) stop.abort();
      for await (const chunk of streamAnswer(engine, ask, stop.signal)) {
        chunks.push(chunk);
        if (chunks.length === after) stop.abort();
      }
      const texts = ['', '', 'Hello, '];
      expect(textOf(chunks)).toBe(texts[Math.min(after, 2)]);
      expect(chunks.at(-1)?.choices[0].finish_reason).toBe('stop');
      expect(chunks.at(-1)?.usage?.completion_tokens).toBe(Math.max(0, after - 1));
      expect(engine.running).toBe(0);
    }
  });

  it('is separated from the reasoning of a model', async () => {
    const pieces = ['<think>', 'hm', '</think>', 'Hello'];
    const { chat } = chatOf({ answer: () => pieces, chatTemplate: thinkingTemplate });
    const { choices } = await chat.chat.completions.create(ask);
    expect(choices[0].message).toMatchObject({ reasoning_content: 'hm', content: 'Hello' });
  });

  it('is refused when it cannot fit, with the reason', async () => {
    const engine = new ScriptedEngine({ contextLength: 60 });
    const long: ChatRequest = { messages: [{ role: 'user', content: 'x'.repeat(50) }] };
    for (const [request, path] of [
      [{ ...ask, max_tokens: 59 }, 'max_tokens'],
      [long, 'messages'],
      [{ messages: [{ role: 'user', content: 'x'.repeat(5000) }] }, 'messages'],
    ] as [ChatRequest, string][]) {
      const refused = await all(streamAnswer(engine, request, never)).catch(toAnswerError);
      expect(refused).toMatchObject({ code: 'invalid_request', violations: [{ path }] });
      expect((refused as ChatError).message).toMatch(/context holds 60 tokens/);
    }
  });
});

/** A worker that answers from a scripted engine, as `worker.ts` does. */
class ScriptedWorker implements ChatWorker {
  readonly sentMessages: ToWorker[] = [];
  terminated = false;
  readonly #listeners: ((event: MessageEvent<FromWorker>) => void)[] = [];
  readonly #errors: ((event: ErrorEvent) => void)[] = [];
  readonly #stops = new Map<number, AbortController>();
  readonly engine: ScriptedEngine;

  constructor(script: Script = {}) {
    this.engine = new ScriptedEngine(script);
  }

  addEventListener(type: 'message' | 'error', listener: never): void {
    if (type === 'message') this.#listeners.push(listener);
    else this.#errors.push(listener);
  }

  say(data: FromWorker): void {
    for (const listener of this.#listeners) listener({ data } as MessageEvent<FromWorker>);
  }

  crash(message: string): void {
    for (const listener of this.#errors) listener({ message } as ErrorEvent);
  }

  terminate(): void {
    this.terminated = true;
  }

  postMessage(message: ToWorker): void {
    this.sentMessages.push(message);
    if (message.type === 'ask') void this.#answer(message);
    else if (message.type === 'stop') this.#stops.get(message.id)?.abort();
    else if (message.type === 'close') this.say({ type: 'closed' });
  }

  async #answer({ id, request }: Extract<ToWorker, { type: 'ask' }>): Promise<void> {
    const stop = new AbortController();
    this.#stops.set(id, stop);
    try {
      for await (const chunk of streamAnswer(this.engine, request, stop.signal))
        this.say({ type: 'chunk', id, chunk });
    } catch (error) {
      const { code, message, violations } = toAnswerError(error);
      this.say({ type: 'broken', id, failure: { code, message, violations } });
    }
  }
}

const device: DeviceFacts = {
  vendor: 'test',
  architecture: 'none',
  description: 'scripted',
  fallback: true,
  features: [],
  maxBufferBytes: 1,
};
const chatOf = (script: Script = {}) => {
  const worker = new ScriptedWorker(script);
  return { worker, chat: new PageChat(worker, { model: worker.engine.model, device }) };
};

describe('a chat', () => {
  it('gives the same answer whole and in chunks', async () => {
    const { chat } = chatOf({ delayMs: 1 });
    const whole = await chat.chat.completions.create(ask);
    const chunks = await all(await chat.chat.completions.create({ ...ask, stream: true }));
    expect(whole).toMatchObject({
      object: 'chat.completion',
      choices: [{ index: 0, message: { role: 'assistant', content: textOf(chunks) }, finish_reason: 'stop' }],
      usage: chunks.at(-1)?.usage,
    });
    expect(whole.choices[0].message).not.toHaveProperty('reasoning_content');
  });

  it('answers concurrent requests separately', async () => {
    const { chat } = chatOf({
      delayMs: 1,
      answer: ({ maxTokens }) => Array.from({ length: 9 }, () => `${maxTokens}`),
    });
    const answers = await Promise.all(
      [1, 2, 3].map((n) => chat.chat.completions.create({ ...ask, max_tokens: n })),
    );
    expect(answers.map(({ choices: [{ message }] }) => message.content)).toEqual(['1', '22', '333']);
  });

  it('accepts objects wrapped by a framework, and copies them when called', async () => {
    const { chat, worker } = chatOf();
    const proxied = <Value extends object>(value: Value): Value =>
      new Proxy(value, {
        get: (target, name, self) => {
          const member: unknown = Reflect.get(target, name, self);
          return typeof member === 'object' && member !== null ? proxied(member) : member;
        },
      });
    const messages = [{ role: 'user' as const, content: 'Hi' }];
    const asking = chat.chat.completions.create(proxied({ messages, stop: ['no'] }));
    messages.push({ role: 'user', content: 'later' });
    await asking;
    const [sentMessages] = worker.sentMessages;
    // Values that cannot be cloned for a worker are refused here, as in the browser.
    expect(structuredClone(sentMessages)).toMatchObject({
      request: { messages: [{ role: 'user', content: 'Hi' }], stop: ['no'] },
    });
  });

  it('refuses an invalid request with all violations, without sending it to the worker', async () => {
    const { chat, worker } = chatOf();
    const wrong = { messages: [], temperature: 9, tools: [] } as unknown as ChatRequest & { stream: false };
    const refused = chat.chat.completions.create(wrong);
    await expect(refused).rejects.toBeInstanceOf(ChatError);
    await expect(refused).rejects.toMatchObject({ code: 'invalid_request', violations: { length: 3 } });
    expect(worker.sentMessages).toEqual([]);
    await expect(
      chat.chat.completions.create({ ...ask, max_tokens: 1e6, stream: true }),
    ).rejects.toMatchObject({
      code: 'invalid_request',
    });
  });

  it('ends an answer when its signal aborts or its reader stops reading', async () => {
    const { chat, worker } = chatOf({ delayMs: 2, answer: () => Array.from({ length: 500 }, () => 'x') });
    const stop = new AbortController();
    const stream = await chat.chat.completions.create({ ...ask, stream: true }, { signal: stop.signal });
    const chunks: ChatChunk[] = [];
    for await (const chunk of stream) {
      chunks.push(chunk);
      if (chunks.length === 5) stop.abort();
    }
    expect(chunks.at(-1)?.choices[0].finish_reason).toBe('stop');
    expect(textOf(chunks)).toMatch(/^x{4,}$/);
    expect(textOf(chunks).length).toBeLessThan(500);

    const late = new AbortController();
    const whole = chat.chat.completions.create(ask, { signal: late.signal });
    setTimeout(() => late.abort(), 30);
    expect((await whole).choices[0]).toMatchObject({ finish_reason: 'stop' });

    const nothing = chat.chat.completions.create(ask, { signal: AbortSignal.abort() });
    expect((await nothing).choices[0].message.content).toBe('');

    for await (const chunk of await chat.chat.completions.create({ ...ask, stream: true }))
      if (chunk.choices[0].delta.content === 'x') break;
    while (worker.engine.running > 0) await new Promise((resolve) => setTimeout(resolve, 5));
    expect(worker.engine.aborted).toBeGreaterThan(0);
  });

  it('fails running and later requests once closed, and terminates its worker', async () => {
    const { chat, worker } = chatOf({ hang: true });
    const stream = await chat.chat.completions.create({ ...ask, stream: true });
    const read = all(stream);
    const closing = Promise.all([chat.close(), chat.close()]);
    await expect(read).rejects.toMatchObject({ code: 'closed' });
    await closing;
    expect(worker.terminated).toBe(true);
    expect(await chat.gone).toBe('closed');
    await expect(chat.chat.completions.create(ask)).rejects.toMatchObject({ code: 'closed' });
  });

  it('reports a lost device or a failed worker to all requests', async () => {
    for (const [code, end] of [
      ['device_lost', (worker: ScriptedWorker) => worker.say({ type: 'gone', why: 'device_lost' })],
      ['failed', (worker: ScriptedWorker) => worker.crash('out of memory')],
    ] as const) {
      const { chat, worker } = chatOf({ hang: true });
      const completion = chat.chat.completions.create(ask);
      const refused = expect(completion).rejects.toMatchObject({ code });
      await new Promise((resolve) => setTimeout(resolve, 5));
      end(worker);
      await refused;
      expect(await chat.gone).toBe(code);
      expect(worker.terminated).toBe(true);
      await expect(chat.chat.completions.create(ask)).rejects.toMatchObject({ code });
      await chat.close();
    }
  });

  it('has the digest of a large model as soon as its worker has it', () => {
    const { chat, worker } = chatOf();
    worker.say({ type: 'digest', digest: 'sha256:1' });
    expect(chat.model.digest).toBe('sha256:1');
  });
});

describe('failures', () => {
  const address = { kind: 'address', url: 'http://x/a.gguf', cache: true } as const;
  const files = { kind: 'files', files: new Map() } as const;

  it.each([
    [new ModelFileError('quota_exceeded', 'full'), address, 'quota_exceeded'],
    [new ModelFileError('not_found', 'no'), address, 'download_failed'],
    [new ModelFileError('not_found', 'no'), files, 'bad_model'],
    [new ModelFileError('corrupt', 'no'), address, 'bad_model'],
    [new EngineError('model_too_large', 'use a smaller --context'), address, 'does_not_fit'],
    [new EngineError('unsupported_model', 'no'), files, 'bad_model'],
    [new RangeError('Array buffer allocation failed'), files, 'does_not_fit'],
    [new TypeError('oops'), files, 'failed'],
    [new ChatError('no_webgpu', 'no'), files, 'no_webgpu'],
  ])('%s of a load have their code', (error, place, code) => {
    const failure = toLoadError(error, place);
    expect(failure.code).toBe(code);
    expect(failure.message).not.toMatch(/--\w/);
  });

  it('of a server without ranges advise what a page can do', async () => {
    const server = createServer((_request, response) => response.end('whole')).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/a.gguf`;
    const error: unknown = await openHttpFile(url, { attempts: 1 }).catch((reason: unknown) => reason);
    expect(error).toMatchObject({
      code: 'no_ranges',
      message: expect.stringContaining('use its path') as string,
    });
    expect(toLoadError(error, { kind: 'address', url, cache: true }).message).toContain(
      'download the file and give it to the page as a File',
    );
    server.close();
  });

  it('do not advise options of the command line', () => {
    const cli = 'use a smaller --context, or load this one with --quantize q4_0';
    expect(toLoadError(new EngineError('model_too_large', cli), files).message).toBe(
      'use a smaller contextLength',
    );
  });

  it('of an answer have their own codes', () => {
    expect(toAnswerError(new EngineError('device_lost', 'x; restart the host'))).toMatchObject({
      code: 'device_lost',
      message: expect.not.stringContaining('host') as string,
    });
    expect(toAnswerError(new EngineError('queue_full', 'x')).code).toBe('failed');
    expect(toAnswerError(new EngineError('shutting_down', 'x')).code).toBe('closed');
  });
});

it('throttles progress, except the first and last report of a phase', () => {
  const reports: LoadProgress[] = [];
  const report = throttleProgress((progress) => reports.push(progress));
  for (let done = 0; done <= 1000; done++) report({ phase: 'weights', message: '', done, total: 1000 });
  report({ phase: 'compile', message: '' });
  expect(reports[0]?.done).toBe(0);
  expect(reports.at(-2)?.done).toBe(1000);
  expect(reports.at(-1)?.phase).toBe('compile');
  expect(reports.length).toBeLessThan(100);
});
