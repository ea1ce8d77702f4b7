/** Speculative decoding changes only the time of an output, on the real adapter. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { loadEngine, type ResidentEngine } from '../../src/engine/index.ts';
import { type GenerateRequest, greedySampling, type Sampling } from '../../src/engine/types.ts';
import { testPlatform } from '../support/test-platform.ts';
import { RunnerSequence } from '../support/runner-sequence.ts';
import { fixtureModel } from '../support/shared.ts';
import { endToken, loadFromMemory, tinyModel } from '../support/tiny-model.ts';
import { everyNth, rounds } from '../support/tier.ts';

async function answer(to: GenerateRequest, by: ResidentEngine) {
  const got = { text: '', ids: [] as number[], end: {} };
  for await (const event of by.generate(to)) {
    if (event.type === 'end') {
      const { completion_tokens, prompt_tokens } = event.usage;
      got.end = { finishReason: event.finishReason, completion_tokens, prompt_tokens };
    } else if (event.type === 'text') {
      got.text += event.text;
      got.ids.push(...event.ids);
    }
  }
  return got;
}

describe('the embedded model', () => {
  const model = fixtureModel;
  let plain: ResidentEngine;
  let speculative: ResidentEngine;
  let submitted = 0;
  beforeAll(async () => {
    plain = await loadEngine(testPlatform(), { model, speculation: 'off' });
    speculative = await loadEngine(testPlatform(), { model, speculation: 'always' });
    const { runner } = speculative;
    const submit = runner.submit.bind(runner);
    runner.submit = (step) => {
      submitted += 1;
      return submit(step);
    };
  });
  afterAll(async () => {
    await plain.close();
    await speculative.close();
  });

  const sentence = 'The fox went to the river and the fox saw the fish. ';
  const request = (changes: Partial<GenerateRequest> = {}): GenerateRequest => ({
    prompt: plain.tokenizer.encode(sentence.repeat(5)),
    maxTokens: 120,
    sampling: greedySampling,
    stop: [],
    ignoreEnd: true,
    ...changes,
  });

  it('copies text in fewer steps than it has tokens', async () => {
    const before = speculative.stats().speculation;
    submitted = 0;
    const got = await answer(request(), speculative);
    const { drafted, accepted } = speculative.stats().speculation;
    expect(got.ids).toHaveLength(120);
    expect(submitted).toBeLessThan(100);
    expect(accepted - before.accepted).toBeGreaterThan(20);
    expect(drafted - before.drafted).toBeGreaterThanOrEqual(accepted - before.accepted);
    expect(got).toEqual(await answer(request(), plain));
    expect(plain.stats().speculation).toEqual({ drafted: 0, accepted: 0 });
  });

  const samplings: Record<string, Partial<Sampling>> = {
    greedy: {},
    'a low temperature': { temperature: 0.4 },
    'a high temperature, top_p and top_k': { temperature: 1.1, topP: 0.9, topK: 40 },
    'min_p and a bias': { temperature: 0.8, minP: 0.05, logitBias: new Map([[300, 2]]) },
    penalties: { frequencyPenalty: 0.4, repetitionPenalty: 1.1 },
  };
  it.each(everyNth(Object.entries(samplings), 2))(
    'gives the same tokens with %s, one by one and eight at once',
    async (_, own) => {
      const requests = Array.from({ length: 8 }, (__, seed) =>
        request({ sampling: { ...greedySampling, ...own, seed }, maxTokens: 60 }),
      );
      const together = await Promise.all(requests.map((one) => answer(one, speculative)));
      for (const [seed, one] of requests.entries()) {
        const expected = await answer(one, plain);
        expect(together[seed], `seed ${seed}`).toEqual(expected);
        if (seed < 2) expect(await answer(one, speculative), `seed ${seed}, alone`).toEqual(expected);
      }
    },
  );

  it('ends at the end token, at max tokens and before a stop string at any position within drafts', async () => {
    const whole = await answer(request({ maxTokens: 60 }), plain);
    for (let maxTokens = 1; maxTokens <= 20; maxTokens++) {
      expect(await answer(request({ maxTokens }), speculative)).toEqual(
        await answer(request({ maxTokens }), plain),
      );
    }
    for (const at of [20, 33, 41, 58]) {
      const one = request({ stop: [whole.text.slice(at, at + 5)] });
      expect(await answer(one, speculative)).toEqual(await answer(one, plain));
    }
    // The model ends a text that it has seen end, so the end itself is drafted.
    const chat = plain.chatTemplate?.render({
      messages: [
        { role: 'user', content: 'What is the capital of Italy?' },
        { role: 'assistant', content: 'The capital of Italy is Rome.' },
        { role: 'user', content: 'What is the capital of Italy?' },
      ],
      addGenerationPrompt: true,
    });
    const prompt = plain.tokenizer.encode(chat ?? '', { parseSpecial: true });
    const one = request({ prompt, ignoreEnd: false });
    const got = await answer(one, speculative);
    expect(got).toEqual(await answer(one, plain));
    expect(got.end).toMatchObject({ finishReason: 'stop' });
  });

  it('a verified token has the same bits as a decoded one', async (context) => {
    const { runner, adapter } = plain;
    if (!adapter.software)
      context.skip('a GPU compiler may order the sums of two attention kernels differently');
    const text = request().prompt;
    for (const length of [30, 61, 200]) {
      const ids = Array.from({ length: length + 8 }, (_, index) => text[(index * 7) % text.length] as number);
      const [last = 0, ...drafts] = ids.slice(length);
      const one = new RunnerSequence(runner, 0, [3, 1, 4, 15, 9, 2, 6, 5]);
      await one.prefill(ids.slice(0, length), 64);
      const decoded: Float32Array[] = [];
      for (const id of ids.slice(length)) decoded.push(await one.decode(id));
      await new RunnerSequence(runner, 1, [7, 8, 10, 11, 12, 13, 14, 16]).prefill(ids.slice(0, length), 64);
      const step = runner.newStep();
      step.clear();
      const row = step.verifyTokens(last, drafts, length, 1);
      for (let n = 0; n < 8; n++) step.sample(row + n, 1, length + 1 + n, greedySampling);
      const verified = await runner.logits(step);
      for (const [n, logits] of decoded.entries()) expect(verified[n], `${length} + ${n}`).toEqual(logits);
    }
    plain.forgetPrefixes();
  });

  it('adapts to what pays off, with the same tokens', async () => {
    const adaptive = await loadEngine(testPlatform(), { model });
    try {
      for (let n = 0; n < 3; n++) {
        const one = request({ sampling: { ...greedySampling, temperature: 0.6, seed: n } });
        expect(await answer(one, adaptive)).toEqual(await answer(one, plain));
      }
    } finally {
      await adaptive.close();
    }
  });
});

describe('the distribution of sampled tokens', () => {
  const bytes = tinyModel({ architecture: 'llama', type: 'Q8_0' });
  const letters = [97, 98, 99];
  /** Only three letters are allowed, all of them likely. */
  const logitBias = new Map(
    Array.from({ length: 288 }, (_, id): [number, number] => [id, letters.includes(id) ? 0 : -100]),
  );
  const sampling: Sampling = { ...greedySampling, temperature: 6, logitBias };
  // Any first token has occurred before.
  const prompt = Array.from('abcabacbcabccbaabc', (letter) => letter.charCodeAt(0));
  const count = rounds(3000, 1500);

  it('is that of the model, also for drafted tokens', async () => {
    const engine = await loadFromMemory(bytes, { context: 256, queue: count, speculation: 'always' });
    try {
      const sampleCounts = new Map<string, number>();
      const draw = async (seed: number) => {
        const own = { ...sampling, seed };
        const { ids } = await answer(
          { prompt, maxTokens: 4, sampling: own, stop: [], ignoreEnd: true },
          engine,
        );
        const three = ids.slice(0, 3).join();
        sampleCounts.set(three, (sampleCounts.get(three) ?? 0) + 1);
      };
      const seeds = Array.from({ length: count }, (_, n) => n * 7919 + 1);
      await Promise.all(seeds.map(draw));
      expect(engine.stats().speculation.accepted).toBeGreaterThan(count / 10);
      expect(engine.stats().speculation.drafted).toBeGreaterThan(engine.stats().speculation.accepted);

      // Probabilities of all 27 continuations, from the logits.
      const shares = (logits: Float32Array) => {
        const masses = letters.map((id) => Math.exp((logits[id] as number) / sampling.temperature));
        const sum = masses.reduce((a, b) => a + b);
        return masses.map((mass) => mass / sum);
      };
      let chiSquare = 0;
      const pages = [0, 1, 2, 3];
      for (const first of letters) {
        for (const second of letters) {
          const sequence = new RunnerSequence(engine.runner, 0, pages);
          const p1 = shares(await sequence.prefill(prompt));
          const p2 = shares(await sequence.decode(first));
          const p3 = shares(await sequence.decode(second));
          for (const [n, third] of letters.entries()) {
            const expected = count * p1[letters.indexOf(first)]! * p2[letters.indexOf(second)]! * p3[n]!;
            expect(expected).toBeGreaterThan(5);
            const got = sampleCounts.get([first, second, third].join()) ?? 0;
            chiSquare += (got - expected) ** 2 / expected;
          }
        }
      }
      // 26 degrees of freedom: 54 is exceeded by one in a thousand samples; the seeds are fixed.
      expect(chiSquare).toBeLessThan(54);
      expect([...sampleCounts.keys()].some((key) => key.includes(String(endToken)))).toBe(false);
    } finally {
      await engine.close();
    }
  });
});
