/**
 * Texts that continue from retained states, on the real adapter: tokens and probabilities are those of an engine
 * without any.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ResidentEngine } from '../../src/engine/index.ts';
import { type GenerateRequest, greedySampling, type Sampling } from '../../src/engine/types.ts';
import { type Answer, farthest, narrowed, read } from '../support/crowd.ts';
import { random } from '../support/kernel-harness.ts';
import { RunnerSequence } from '../support/runner-sequence.ts';
import { everyNth } from '../support/tier.ts';
import { endToken, loadFromMemory, tinyModel } from '../support/tiny-model.ts';
import { toyGrammar, ToyConstraint } from '../support/toy-constraint.ts';

/**
 * A text that was decoded may be computed again as a prompt. On a software adapter that gives the same bits; tiles of a
 * GPU add in another order, and round to f16 without `exact`.
 */
const tolerance = 1e-2;
const warm: Sampling = { ...greedySampling, temperature: 0.9, topP: 0.95, seed: 3 };
/** Writes three letters and ends: each is less likely than the one before, and least likely once it has occurred. */
const ending: Sampling = {
  ...greedySampling,
  logitBias: new Map([97, 98, 99, endToken].map((id, n) => [id, 1e6 - 1000 * n])),
  frequencyPenalty: 5000,
};

const some = (count: number, seed: number): number[] => {
  const next = random(seed);
  return Array.from({ length: count }, () => Math.floor(next() * 256));
};

const request = (prompt: readonly number[], changes: Partial<GenerateRequest> = {}): GenerateRequest => ({
  prompt,
  maxTokens: 20,
  sampling: greedySampling,
  stop: [],
  ignoreEnd: true,
  logprobs: 2,
  ...changes,
});

function expectSame(got: Answer, wanted: Answer, what: string): void {
  expect(got.ids, what).toEqual(wanted.ids);
  expect(farthest(got.logprobs, wanted.logprobs), what).toBeLessThan(tolerance);
  expect(farthest(got.prompt, wanted.prompt), what).toBeLessThan(tolerance);
}

describe.each(everyNth(['lfm2', 'qwen35'] as const, 2))('%s', (architecture) => {
  const bytes = tinyModel({ architecture, layers: 4 });
  const notices: string[] = [];
  let engine: ResidentEngine;
  let other: ResidentEngine;
  beforeAll(async () => {
    const onNotice = (notice: string) => notices.push(notice);
    engine = await loadFromMemory(bytes, { context: 320, parallel: 4, exact: true, onNotice });
    other = await loadFromMemory(bytes, { context: 320, parallel: 1, exact: true });
  });
  afterAll(async () => {
    await engine.close();
    await other.close();
  });

  const answer = (one: GenerateRequest) => read(engine.generate(one));
  /** The answer of an engine without retained states. */
  const cold = async (one: GenerateRequest): Promise<Answer> => {
    other.forgetPrefixes();
    const got = await read(other.generate(one));
    expect(got.cached).toBe(0);
    return got;
  };
  /**
   * Sends a request and checks it against the other engine.
   * @returns its output
   */
  const expectCold = async (one: GenerateRequest, cached: number, by = answer): Promise<Answer> => {
    const got = await by(one);
    expect(got.cached).toBe(cached);
    expectSame(got, await cold(one), `${one.prompt.length} tokens, ${cached} of them cached`);
    return got;
  };

  it('a growing chat continues after its last output, or after the token that ended it', async () => {
    engine.forgetPrefixes();
    let prompt = some(50, 1);
    let known = 0;
    for (const [turn, sampling] of [greedySampling, warm, ending, warm, ending, greedySampling].entries()) {
      const ends = sampling === ending;
      const one = request(prompt, { sampling, maxTokens: 13 + turn, ...(ends ? { ignoreEnd: false } : {}) });
      const got = await expectCold(one, known);
      // The token sampled last is not written, except one that ended the text before that was known.
      known = prompt.length + got.ids.length - (ends ? 0 : 1);
      prompt = [...prompt, ...got.ids, ...some(11 + 9 * turn, turn)];
    }
    expect(known).toBeGreaterThan(180);
  });

  it('a repeated text continues after the last whole page, and the third of several diverging texts where they diverge', async () => {
    engine.forgetPrefixes();
    const stem = some(100, 2);
    const texts = [30, 33, 60, 28].map((count, n) => [...stem, ...some(count, 20 + n)]);
    await expectCold(request(texts[0]!), 0);
    await expectCold(request(texts[0]!), 128);
    await expectCold(request(texts[1]!), 0);
    await expectCold(request(texts[2]!), 96);
    await expectCold(request(texts[1]!), 128);
    // Nothing is retained of less than a page.
    await expectCold(request([...stem.slice(0, 31), 1]), 0);
    await expectCold(request(texts[3]!, { sampling: warm }), 96);
  });

  it('texts of one step do not continue from what that step writes', async () => {
    // Steps with room for all of them come once the prompt speed is known.
    for (let round = 0; round < 3; round++) {
      engine.forgetPrefixes();
      const stem = some(64, 30 + round);
      const list = Array.from({ length: 3 }, (_, n) => request([...stem, ...some(2 + n, n)]));
      // While it decodes, all of them arrive before the next step is formed.
      const busy = answer(request(some(9, 3), { maxTokens: 40 }));
      const together = await Promise.all(list.map(answer));
      await busy;
      for (const [n, got] of together.entries()) expectSame(got, await cold(list[n]!), `${round}, ${n}`);
      await expectCold(request([...stem, 7, 8, 9]), 64);
    }
  });

  it('a canceled text leaves the state after its prompt, not a later one that was not read back', async () => {
    const prompt = some(70, 4);
    const whole = await cold(request(prompt, { maxTokens: 60 }));
    for (const cut of [1, 2, 7, 26, 27]) {
      engine.forgetPrefixes();
      let left = cut;
      for await (const event of engine.generate(request(prompt, { maxTokens: 60 })))
        if (event.type === 'text' && (left -= event.ids.length) <= 0) break;
      await expectCold(request([...prompt, ...whole.ids.slice(0, 45)]), 64);
    }
  });

  it('with few or no retained states, texts continue from what is left, or from the start', async () => {
    engine.forgetPrefixes();
    const chats = [5, 6, 7].map((seed) => some(40, seed));
    for (const retainedStates of [2, 1, 0]) {
      const by = narrowed(engine, { retainedStates });
      const next = (one: GenerateRequest) => read(by.generate(one).events);
      const texts = [...chats];
      let cached = 0;
      // The first of them twice in a row.
      for (const n of [0, 0, 1, 2, 0, 1, 1]) {
        const one = request(texts[n]!, { maxTokens: 6 });
        const got = await next(one);
        expectSame(got, await cold(one), `chat ${n}, ${retainedStates} states`);
        texts[n] = [...one.prompt, ...got.ids, ...some(5, n)];
        cached += got.cached;
      }
      // From those that repeat the previous one: the others were evicted.
      expect(cached).toBe(retainedStates === 0 ? 0 : 45 + 56);
    }
  });

  it('a scored prompt is computed completely, and others continue after it', async () => {
    engine.forgetPrefixes();
    const prompt = some(80, 8);
    const scores = request(prompt, { maxTokens: 0, promptLogprobs: true });
    await expectCold(scores, 0);
    await expectCold(request([...prompt, ...some(20, 9)]), 80);
    await expectCold(scores, 0);
    const scored = request([...prompt, ...some(20, 10)], { maxTokens: 3, promptLogprobs: true });
    const got = await expectCold(scored, 0);
    expect(got.prompt).toHaveLength(100);
    await expectCold(request([...scored.prompt, ...got.ids, 1, 2]), 102);
  });

  it('grammar-constrained texts continue from each other', async () => {
    engine.forgetPrefixes();
    let prompt = some(45, 10);
    for (let turn = 0; turn < 3; turn++) {
      const constrained = () =>
        request(prompt, {
          constraint: new ToyConstraint(toyGrammar(turn), turn),
          sampling: warm,
          maxTokens: 15,
        });
      const got = await answer(constrained());
      expectSame(got, await cold(constrained()), `turn ${turn}`);
      expect(got.cached).toBe(turn === 0 ? 0 : prompt.length - 10);
      prompt = [...prompt, ...got.ids, ...some(9, turn)];
    }
  });

  it('exclusive work leaves nothing to continue from', async () => {
    engine.forgetPrefixes();
    const first = request(some(70, 11));
    const got = await expectCold(first, 0);
    const next = request([...first.prompt, ...got.ids, ...some(8, 12)]);
    // Immediately: the state after the output would be copied before the next step.
    await engine.exclusive(async (runner) => {
      for (let slot = 0; slot < 4; slot++)
        await new RunnerSequence(runner, slot, [0, 1, 2, 3]).prefill(some(90, slot));
    });
    await expectCold(next, 0);
    await expectCold(next, 96);
    // A new text does not contain another text's state.
    await expectCold(request([1]), 0);
  });

  it('a lost device takes its states with it, and the next one starts without any', async () => {
    const first = request(some(70, 13));
    const got = await expectCold(first, 0);
    const next = request([...first.prompt, ...got.ids, ...some(8, 14)]);
    const running = answer(request(some(70, 15), { maxTokens: 200 }));
    engine.runner.gpu.device.destroy();
    await expect(running).rejects.toMatchObject({ code: 'device_lost' });
    await expect.poll(() => notices.at(-1)).toBe('the model is loaded again');
    const again = await expectCold(next, 0);
    await expectCold(request([...next.prompt, ...again.ids, 5]), next.prompt.length + 19);
  });
});
