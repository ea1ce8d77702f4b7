/** The engine's guarantees to its callers, on the real adapter with the embedded model. */
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { loadEngine, type ResidentEngine } from '../../src/engine/index.ts';
import { EngineError, type GenerateRequest, greedySampling, type Sampling } from '../../src/engine/types.ts';
import { testPlatform } from '../support/test-platform.ts';
import { random } from '../support/kernel-harness.ts';
import { inEachPrecision, roundsToF16 } from '../support/precision.ts';
import { fixtureModel } from '../support/shared.ts';

const model = fixtureModel;
let engine: ResidentEngine;

beforeAll(async () => {
  engine = await loadEngine(testPlatform(), { model, parallel: 8, queue: 4 });
});
afterAll(() => engine.close());

const chat = (content: string): number[] => {
  const prompt = engine.chatTemplate?.render({
    messages: [{ role: 'user', content }],
    addGenerationPrompt: true,
  });
  return engine.tokenizer.encode(prompt ?? content, { parseSpecial: true });
};

const request = (content: string, changes: Partial<GenerateRequest> = {}): GenerateRequest => ({
  prompt: chat(content),
  maxTokens: 60,
  sampling: greedySampling,
  stop: [],
  ...changes,
});

const warm: Sampling = { ...greedySampling, temperature: 0.9, topP: 0.95, seed: 11 };

interface Answer {
  text: string;
  ids: number[];
  finishReason: string | undefined;
  completionTokens: number;
}

async function answer(to: GenerateRequest, by: ResidentEngine = engine): Promise<Answer> {
  const got: Answer = { text: '', ids: [], finishReason: undefined, completionTokens: 0 };
  for await (const event of by.generate(to)) {
    if (event.type === 'text') {
      got.text += event.text;
      got.ids.push(...event.ids);
    } else if (event.type === 'end') {
      got.finishReason = event.finishReason;
      got.completionTokens = event.usage.completion_tokens;
    }
  }
  return got;
}

const refusal = (run: () => unknown): EngineError => {
  try {
    run();
  } catch (error) {
    expect(error).toBeInstanceOf(EngineError);
    return error as EngineError;
  }
  throw new Error('nothing was refused');
};

const story = 'Tell me a story about a fox named Mia.';

describe('the same request gives the same text', () => {
  it('greedy, twice', async () => {
    const first = await answer(request(story));
    expect(first.text).toContain('Mia');
    expect(await answer(request(story))).toEqual(first);
  });

  it('sampled with a seed, alone and together with seven others', async () => {
    const alone = await answer(request(story, { sampling: warm }));
    const others = Array.from({ length: 7 }, (_, index) =>
      answer(request(`What is ${index + 10} + 31?`, { sampling: { ...warm, seed: index } })),
    );
    const [beside] = await Promise.all([answer(request(story, { sampling: warm })), ...others]);
    expect(beside).toEqual(alone);
  });

  it('and with another seed, another text', async () => {
    const texts = new Set<string>();
    for (let seed = 0; seed < 6; seed++) {
      texts.add((await answer(request(story, { sampling: { ...warm, temperature: 1.2, seed } }))).text);
    }
    expect(texts.size).toBeGreaterThan(1);
  });
});

describe('prefill', () => {
  // These tests write to the engine's pages directly.
  afterEach(() => engine.forgetPrefixes());
  const ids = () => chat(`${story} ${story} ${story} What is the capital of Italy?`);

  it('gives the same bits in one chunk and in chunks of any size', async () => {
    const prompt = ids();
    const { runner } = engine;
    const inPieces = async (slot: number, size: number): Promise<Float32Array> => {
      runner.setPages(slot, [slot * 4, slot * 4 + 1, slot * 4 + 2, slot * 4 + 3]);
      const step = runner.newStep();
      for (let done = 0; done < prompt.length; done += size) {
        const count = Math.min(size, prompt.length - done);
        step.clear();
        const row = step.prefillTokens(prompt, done, count, slot);
        if (done + count < prompt.length) await runner.submit(step);
        else step.sample(row, slot, prompt.length, greedySampling);
      }
      return (await runner.logits(step))[0] as Float32Array;
    };
    const whole = await inPieces(0, prompt.length);
    for (const size of [1, 7, 32, 33]) expect(await inPieces(1, size), `pieces of ${size}`).toEqual(whole);
  });

  it('gives the same as decoding the prompt token by token, up to the rounding of attention', async () => {
    const prompt = ids();
    await inEachPrecision(async ({ exact }) => {
      const own = exact ? await loadEngine(testPlatform(), { model, exact }) : engine;
      const { runner } = own;
      runner.setPages(0, [5, 2, 7, 1]);
      runner.setPages(1, [0, 3, 4, 6]);
      const step = runner.newStep();
      step.clear();
      step.sample(step.prefillTokens(prompt, 0, prompt.length, 0), 0, prompt.length, greedySampling);
      const whole = (await runner.logits(step))[0] as Float32Array;
      let last: Float32Array | undefined;
      for (const [position, id] of prompt.entries()) {
        step.clear();
        step.sample(step.decodeToken(id, position, 1), 1, position + 1, greedySampling);
        [last] = await runner.logits(step);
      }
      const worst = Math.max(...whole.map((logit, index) => Math.abs(logit - (last?.[index] ?? Number.NaN))));
      const rounds = roundsToF16(runner);
      // Measured on an H200 (2026-11-27): 0.005, because its tiles hold weights and activations in f16.
      expect(worst).toBeLessThan(rounds ? 0.02 : 2e-3);
      if (exact) await own.close();
      return rounds;
    });
  });
});

describe('an output ends', () => {
  it('at the end token with stop, at max tokens with length', async () => {
    const whole = await answer(request('What is the capital of Italy?'));
    expect(whole).toMatchObject({ text: 'The capital of Italy is Rome.', finishReason: 'stop' });
    const cut = await answer(request('What is the capital of Italy?', { maxTokens: 3 }));
    expect(cut).toMatchObject({ finishReason: 'length', completionTokens: 3 });
    expect(whole.text.startsWith(cut.text)).toBe(true);
    expect((await answer(request('Hi', { maxTokens: 1 }))).completionTokens).toBe(1);
  });

  it('before a stop string, for any token boundaries', async () => {
    const whole = (await answer(request(story))).text;
    for (const [start, length] of [
      [9, 5],
      [17, 13],
      [30, 2],
    ] as const) {
      const stop = whole.slice(start, start + length);
      const got = await answer(request(story, { stop: ['never written', stop] }));
      expect(got.text).toBe(whole.slice(0, whole.indexOf(stop)));
      expect(got.finishReason).toBe('stop');
    }
  });

  it('after the end token only when requested', async () => {
    const got = await answer(request('What is the capital of Italy?', { maxTokens: 40, ignoreEnd: true }));
    expect(got).toMatchObject({ completionTokens: 40, finishReason: 'length' });
  });
});

describe('sampling parameters reach the GPU', () => {
  it('logit_bias forces and bans', async () => {
    const [rome = 0] = engine.tokenizer.encode(' Rome');
    const forced = await answer(
      request('Hi', { maxTokens: 4, sampling: { ...greedySampling, logitBias: new Map([[rome, 100]]) } }),
    );
    expect(forced.ids).toEqual([rome, rome, rome, rome]);
    const banned = await answer(
      request('What is the capital of Italy?', {
        sampling: { ...greedySampling, logitBias: new Map([[rome, -100]]) },
      }),
    );
    expect(banned.ids).not.toContain(rome);
    // The next user of the slot is not affected.
    expect((await answer(request('What is the capital of Italy?'))).ids).toContain(rome);
  });

  it('penalties stop repetition', async () => {
    const [word = 0] = engine.tokenizer.encode(' fox');
    const bias = new Map([[word, 30]]);
    const plain = await answer(
      request('Hi', { maxTokens: 8, sampling: { ...greedySampling, logitBias: bias } }),
    );
    expect(new Set(plain.ids).size).toBe(1);
    for (const penalty of [{ frequencyPenalty: 20 }, { presencePenalty: 40 }, { repetitionPenalty: 50 }]) {
      const sampling = { ...greedySampling, logitBias: bias, ...penalty };
      const got = await answer(request('Hi', { maxTokens: 8, sampling }));
      expect(new Set(got.ids).size, JSON.stringify(penalty)).toBeGreaterThan(1);
    }
  });

  it('NaN logits end the request with an error that names the model file', async () => {
    const bias = new Map(Array.from({ length: engine.model.vocabSize }, (_, id) => [id, Number.NaN]));
    const broken = answer(request('Hi', { sampling: { ...greedySampling, logitBias: bias } }));
    await expect(broken).rejects.toMatchObject({
      code: 'broken_model',
      message: expect.stringContaining('model file'),
    });
  });

  it('top_k 1 is greedy at any temperature', async () => {
    const got = await answer(request(story, { sampling: { ...warm, temperature: 2, topK: 1 } }));
    expect(got.text).toBe((await answer(request(story))).text);
  });

  it('a character split across tokens is emitted whole', async () => {
    // Forces the bytes of two characters, one byte token after the other.
    const text = '€🦊';
    const bytes = engine.tokenizer.encode(text);
    const pieces: string[] = [];
    const stream = engine.tokenizer.stream();
    for (const id of bytes) pieces.push(stream.push(id));
    pieces.push(stream.flush());
    expect(bytes.length).toBeGreaterThan(2);
    expect(pieces.join('')).toBe(text);
    for (const piece of pieces) expect(piece).not.toContain('\uFFFD');
  });
});

describe('invalid requests are rejected at once', () => {
  it('a prompt that does not fit, with both numbers', () => {
    const prompt = Array.from({ length: 1000 }, () => 5);
    const error = refusal(() => engine.generate(request('', { prompt, maxTokens: 25 })));
    expect(error.code).toBe('context_length_exceeded');
    expect(error.message).toContain('1024');
    expect(error.message).toContain('1025');
  });

  it('but a prompt that fits exactly is accepted', async () => {
    const prompt = Array.from({ length: 1023 }, (_, index) => (index * 7) % 2000);
    expect((await answer(request('', { prompt, maxTokens: 1 }))).completionTokens).toBe(1);
  });

  it('an empty prompt', () => {
    expect(refusal(() => engine.generate(request('', { prompt: [] }))).code).toBe('invalid_request');
  });

  it('more requests than slots and queue hold, and the others are served', async () => {
    const long = request(story, { maxTokens: 20, ignoreEnd: true });
    const running = Array.from({ length: 12 }, () => answer(long));
    expect(refusal(() => engine.generate(long)).code).toBe('queue_full');
    const answers = await Promise.all(running);
    expect(new Set(answers.map((one) => one.text)).size).toBe(1);
    expect((await answer(long)).completionTokens).toBe(20);
  });
});

describe('a canceled request', () => {
  it('throws the reason and frees its slot', async () => {
    const controller = new AbortController();
    const reason = new Error('the client left');
    const run = async () => {
      let events = 0;
      for await (const event of engine.generate(
        request(story, { maxTokens: 900, ignoreEnd: true, signal: controller.signal }),
      )) {
        if (event.type === 'text' && ++events === 3) controller.abort(reason);
      }
    };
    await expect(run()).rejects.toBe(reason);
    expect(engine.stats().running).toBe(0);
  });

  it('stops when its consumer leaves the loop', async () => {
    const before = engine.stats().completions;
    for await (const event of engine.generate(request(story, { maxTokens: 900, ignoreEnd: true }))) {
      if (event.type === 'text') break;
    }
    expect(engine.stats()).toMatchObject({ running: 0, queued: 0, completions: before });
  });

  it('leaks nothing over 200 random requests, a third of them canceled', async () => {
    const next = random(5);
    const one = async () => {
      const controller = new AbortController();
      const cut = next() < 0.33 ? Math.floor(next() * 6) : undefined;
      const sampling = { ...warm, seed: Math.floor(next() * 1e6) };
      const prompt = chat(story).slice(0, 1 + Math.floor(next() * 18));
      const generation = engine.generate({
        prompt,
        maxTokens: 1 + Math.floor(next() * 10),
        sampling,
        stop: [],
        signal: controller.signal,
      });
      let events = 0;
      try {
        for await (const _ of generation) if (events++ === cut) controller.abort(new Error('cut'));
      } catch (error) {
        expect((error as Error).message).toBe('cut');
      }
    };
    for (let round = 0; round < 25; round++) await Promise.all(Array.from({ length: 8 }, one));
    const { pages, ...rest } = engine.stats();
    expect(rest).toMatchObject({ running: 0, queued: 0 });
    // All pages are back: none is owned, and without the cached ones all are free.
    expect(pages.free + pages.cached).toBe(pages.total);
    engine.forgetPrefixes();
    expect(engine.stats().pages).toEqual({ total: pages.total, free: pages.total, cached: 0 });
  });
});

describe('a lost device', () => {
  it('fails running requests, is replaced once, and the next request succeeds', async () => {
    const notices: string[] = [];
    const own = await loadEngine(testPlatform(), { model, onNotice: (notice) => notices.push(notice) });
    try {
      const expected = await answer(request('What is the capital of Italy?'), own);
      const running = answer(request(story, { maxTokens: 900, ignoreEnd: true }), own);
      own.runner.gpu.device.destroy();
      await expect(running).rejects.toMatchObject({ code: 'device_lost' });
      expect(refusal(() => own.generate(request('Hi'))).code).toBe('device_lost');
      await expect.poll(() => notices.at(-1)).toBe('the model is loaded again');
      expect(await answer(request('What is the capital of Italy?'), own)).toEqual(expected);
      expect(own.stats().deviceLosses).toBe(1);
    } finally {
      await own.close();
    }
  });

  it('so is a device that rejects a step without being lost', async () => {
    const notices: string[] = [];
    const own = await loadEngine(testPlatform(), { model, onNotice: (notice) => notices.push(notice) });
    try {
      const expected = await answer(request('What is the capital of Italy?'), own);
      own.runner.submit = () => Promise.reject(new Error('refused'));
      await expect(answer(request('Hi'), own)).rejects.toMatchObject({ code: 'device_lost' });
      await expect.poll(() => notices.at(-1)).toBe('the model is loaded again');
      expect(await answer(request('What is the capital of Italy?'), own)).toEqual(expected);
      expect(own.stats().deviceLosses).toBe(1);
    } finally {
      await own.close();
    }
  });

  it('is not replaced again when the new one is lost before any request succeeds', async () => {
    const notices: string[] = [];
    const own = await loadEngine(testPlatform(), { model, onNotice: (notice) => notices.push(notice) });
    try {
      own.runner.gpu.device.destroy();
      await expect.poll(() => notices.at(-1)).toBe('the model is loaded again');
      own.runner.gpu.device.destroy();
      await expect.poll(() => notices.at(-1)).toContain('giving up');
      expect(refusal(() => own.generate(request('Hi'))).message).toContain('restart');
    } finally {
      await own.close();
    }
  });
});

describe('close', () => {
  it('fails running requests, resolves when they are done, and rejects new ones', async () => {
    const own = await loadEngine(testPlatform(), { model });
    const running = answer(request(story, { maxTokens: 900, ignoreEnd: true }), own);
    const closed = own.close(600_000);
    await expect(running).rejects.toMatchObject({ code: 'shutting_down' });
    // It stops as soon as nothing runs; the grace period is ten minutes.
    await closed;
    expect(refusal(() => own.generate(request('Hi'))).code).toBe('shutting_down');
  });
});
