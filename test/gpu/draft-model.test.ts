/** Draft models on the real adapter: outputs are the same as without one. */
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { loadEngine, type ResidentEngine } from '../../src/engine/index.ts';
import {
  EngineError,
  type GenerateRequest,
  type GenerationEvent,
  greedySampling,
  type Sampling,
} from '../../src/engine/types.ts';
import { withDeviceMemory } from '../support/limited-device.ts';
import { loadFromMemory, loadWithDraft, memoryPlatform, tinyModel } from '../support/tiny-model.ts';
import { until } from '../support/until.ts';
import { everyNth, rounds, runsRest } from '../support/tier.ts';

const large = tinyModel({ architecture: 'llama', type: 'Q8_0', layers: 3, seed: 5 });
/** The same vocabulary and nothing else in common, plus padding tokens. */
const stranger = tinyModel({
  architecture: 'qwen3',
  layers: 1,
  width: 32,
  heads: 2,
  seed: 99,
  vocab: 296,
  context: 160,
});

async function answer(to: GenerateRequest, by: ResidentEngine) {
  const events: Extract<GenerationEvent, { type: 'text' }>[] = [];
  let end = {};
  for await (const event of by.generate(to)) {
    if (event.type === 'text') events.push(event);
    else if (event.type === 'end')
      end = { reason: event.finishReason, stop: event.stopText, tokens: event.usage.completion_tokens };
  }
  return {
    end,
    text: events.map(({ text }) => text).join(''),
    ids: events.flatMap(({ ids }) => ids),
    logprobs: events.flatMap(({ logprobs }) => logprobs ?? []),
  };
}

/** Bytes are their own ids. */
const bytesOf = (seed: number, length: number): number[] =>
  Array.from({ length }, (_, index) => 97 + ((seed * 31 + index * index * 7 + index * seed) % 26));

const request = (changes: Partial<GenerateRequest> = {}): GenerateRequest => ({
  prompt: bytesOf(1, 40),
  maxTokens: 60,
  sampling: greedySampling,
  stop: [],
  ignoreEnd: true,
  ...changes,
});

const samplings: Record<string, Partial<Sampling>> = {
  greedy: {},
  'a low temperature': { temperature: 0.4 },
  'a high temperature, top_p and top_k': { temperature: 1.1, topP: 0.9, topK: 40 },
  'min_p and a bias': { temperature: 0.8, minP: 0.05, logitBias: new Map([[100, 2]]) },
  penalties: { frequencyPenalty: 0.4, repetitionPenalty: 1.1 },
};

describe.each([
  { what: 'the model itself', draft: large, minAccepted: 0.95, maxAccepted: 1 },
  { what: 'a stranger', draft: stranger, minAccepted: 0, maxAccepted: 0.3 },
])('drafts of $what', ({ draft, minAccepted, maxAccepted }) => {
  let plain: ResidentEngine;
  let drafted: ResidentEngine;
  let auto: ResidentEngine;
  beforeAll(async () => {
    plain = await loadFromMemory(large, { speculation: 'off', parallel: 4 });
    drafted = await loadWithDraft(large, draft, { speculation: 'always', parallel: 4 });
    auto = await loadWithDraft(large, draft, { parallel: 4 });
  });
  afterAll(async () => {
    await Promise.all([plain, drafted, auto].map((engine) => engine?.close()));
  });

  it.each(everyNth(Object.entries(samplings), 2))(
    'do not change outputs with %s, one by one and together',
    async (_, own) => {
      const list = Array.from({ length: 6 }, (__, seed) =>
        request({
          prompt: bytesOf(seed, 20 + 9 * seed),
          sampling: { ...greedySampling, ...own, seed: seed * 77 + 1 },
        }),
      );
      const together = await Promise.all(list.map((one) => answer(one, drafted)));
      for (const [index, one] of list.entries()) {
        const expected = await answer(one, plain);
        expect(together[index], `request ${index}`).toEqual(expected);
        if (index < 2) {
          expect(await answer(one, drafted), `request ${index}, alone`).toEqual(expected);
          expect(await answer(one, auto), `request ${index}, as it pays`).toEqual(expected);
        }
      }
    },
  );

  it("are accepted as often as the models agree, and are counted under the draft model's name", async () => {
    const before = drafted.stats().speculation.draft;
    for (let seed = 0; seed < 4; seed++) {
      const sampling = { ...greedySampling, temperature: seed % 2, seed };
      await answer(request({ prompt: bytesOf(50 + seed, 30), sampling }), drafted);
    }
    const { draft: after, drafted: all } = drafted.stats().speculation;
    const [draftedTokens, right] = [after!.drafted - before!.drafted, after!.accepted - before!.accepted];
    expect(draftedTokens).toBeGreaterThan(20);
    expect(right / draftedTokens).toBeGreaterThanOrEqual(minAccepted);
    expect(right / draftedTokens).toBeLessThanOrEqual(maxAccepted);
    expect(all).toBeGreaterThanOrEqual(after!.drafted);
    expect(after?.model).toMatch(/^tiny/);
    expect(plain.stats().speculation).not.toHaveProperty('draft');
  });

  it('do not change log probabilities', async () => {
    const one = request({ logprobs: 3, sampling: { ...greedySampling, temperature: 0.9, seed: 3 } });
    const [got, expected] = [await answer(one, drafted), await answer(one, plain)];
    expect(got.ids).toEqual(expected.ids);
    expect(got.logprobs).toHaveLength(expected.logprobs.length);
    for (const [index, { id, logprob, top }] of expected.logprobs.entries()) {
      expect(got.logprobs[index]).toMatchObject({ id, top: top.map((other) => ({ id: other.id })) });
      expect(got.logprobs[index]?.logprob).toBeCloseTo(logprob, 4);
    }
  });

  it('do not change where outputs end: at a limit, a stop string or the end of the context', async () => {
    const whole = await answer(request(), plain);
    for (const maxTokens of [1, 2, 3, 7, 8, 9, 16]) {
      const one = request({ maxTokens });
      expect(await answer(one, drafted)).toEqual(await answer(one, plain));
    }
    for (const at of [5, 21, 40]) {
      const one = request({ stop: [whole.text.slice(at, at + 4)] });
      expect(await answer(one, drafted)).toEqual(await answer(one, plain));
    }
    const { contextLength } = plain.model;
    const long = request({ prompt: bytesOf(3, contextLength - 30), maxTokens: 30 });
    expect(await answer(long, drafted)).toEqual(await answer(long, plain));
  });

  it('do not change any of random requests that share steps, arrive and leave', async () => {
    const alone = new Map<string, Awaited<ReturnType<typeof answer>>>();
    const expectedOf = async (one: GenerateRequest, key: string) => {
      const known = alone.get(key) ?? (await answer(one, plain));
      alone.set(key, known);
      return known;
    };
    const anyRequest = fc.record({
      text: fc.nat(4),
      length: fc.constantFrom(3, 30, 90, 150),
      maxTokens: fc.constantFrom(1, 5, 24, 40),
      seed: fc.nat(3),
      temperature: fc.constantFrom(0, 0.7, 1.3),
      presencePenalty: fc.constantFrom(0, 0, 0.6),
      ignoreEnd: fc.boolean(),
      /** Text events after which the reader leaves. */
      leaves: fc.constantFrom(undefined, undefined, undefined, 3, 9),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(anyRequest, { minLength: 3, maxLength: 9 }), async (list) => {
        const jobs = list.map(
          async ({ text, length, seed, temperature, presencePenalty, leaves, ...rest }) => {
            const sampling = { ...greedySampling, temperature, presencePenalty, seed };
            const one = request({ ...rest, prompt: bytesOf(text, length), sampling });
            if (leaves === undefined) {
              const key = JSON.stringify([text, length, seed, temperature, presencePenalty, rest]);
              const got = await answer(one, drafted);
              return { got, expected: () => expectedOf(one, key) };
            }
            let count = 0;
            for await (const _ of drafted.generate(one)) if (++count === leaves) break;
            return undefined;
          },
        );
        for (const job of await Promise.all(jobs)) if (job) expect(job.got).toEqual(await job.expected());
      }),
      { numRuns: rounds(12, 4), seed: 20261122 },
    );
  });

  it('allocate and compile nothing while tokens are generated', async () => {
    const { device } = drafted.runner.gpu;
    const names = [
      'createBuffer',
      'createComputePipeline',
      'createComputePipelineAsync',
      'createBindGroup',
    ] as const;
    const kept = names.map((name) => [name, device[name]] as const);
    let calls = 0;
    const before = drafted.stats().speculation.draft!.drafted;
    for (const [name, original] of kept) {
      const counted = (...args: unknown[]) => {
        calls += 1;
        return (original as (...all: unknown[]) => unknown).apply(device, args);
      };
      Object.defineProperty(device, name, { value: counted, configurable: true });
    }
    try {
      device.createBuffer({ size: 16, usage: GPUBufferUsage.COPY_DST }).destroy();
      expect(calls).toBe(1);
      calls = 0;
      await Promise.all(
        [0, 1, 2].map((seed) => answer(request({ prompt: bytesOf(seed + 70, 50) }), drafted)),
      );
    } finally {
      for (const [name] of kept) Reflect.deleteProperty(device, name);
    }
    expect(calls).toBe(0);
    expect(drafted.stats().speculation.draft!.drafted).toBeGreaterThan(before);
  });
});

it('a lost device takes both models with it, and both are loaded again', async () => {
  const notices: string[] = [];
  const engine = await loadWithDraft(large, large, {
    speculation: 'always',
    onNotice: (message) => notices.push(message),
  });
  try {
    const expected = await answer(request(), engine);
    const { draftRunner: draft } = engine.runner;
    const running = answer(request({ maxTokens: 400, prompt: bytesOf(8, 20) }), engine);
    running.catch(() => undefined);
    await until(() => engine.stats().running === 1);
    engine.runner.gpu.device.destroy();
    await expect(running).rejects.toMatchObject({ code: 'device_lost' });
    await expect.poll(() => notices.at(-1)).toMatch(/loaded again/);
    expect(engine.runner.draftRunner).toBeDefined();
    expect(engine.runner.draftRunner).not.toBe(draft);
    const before = engine.stats().speculation.draft!.accepted;
    expect(await answer(request(), engine)).toEqual(expected);
    expect(engine.stats().speculation.draft!.accepted).toBeGreaterThan(before);
  } finally {
    await engine.close();
  }
});

describe('a draft model is rejected', () => {
  const refusal = async (draft: Uint8Array, options: Parameters<typeof loadWithDraft>[2] = {}) => {
    const error: unknown = await loadWithDraft(large, draft, options).then(
      async (engine) => await engine.close(),
      (reason: unknown) => reason,
    );
    expect(error).toBeInstanceOf(EngineError);
    return error as EngineError;
  };

  it('with a different vocabulary', async () => {
    const other = tinyModel({ architecture: 'llama' });
    // `Ġ` stands for the space: another token at its id.
    const at = Buffer.from(other).indexOf(Buffer.from('<|end|>'));
    const changed = other.slice();
    changed.set(Buffer.from('<|fin|>'), at);
    const { code, message } = await refusal(changed);
    expect(code).toBe('invalid_request');
    expect(message).toMatch(/--draft: the tokens of .* token 256 is "<\|fin\|>", not "<\|end\|>"/);
  });

  it('that makes embeddings, or with speculation disabled', async () => {
    expect((await refusal(tinyModel({ architecture: 'qwen3', pooling: 3 }))).message).toMatch(
      /--draft: .* makes embeddings/,
    );
    expect((await refusal(large, { speculation: 'off' })).message).toMatch(
      /cannot be combined with --no-speculation/,
    );
  });

  it.runIf(runsRest)('that does not fit in addition to the target model, which fits alone', async () => {
    const wide = tinyModel({ architecture: 'llama', width: 512, feedForward: 4096, layers: 3, seed: 3 });
    const platform = withDeviceMemory(memoryPlatform(large, wide), 64 << 20);
    const options = { model: 'memory.gguf', context: 128, parallel: 1 };
    const alone = await loadEngine(platform, options);
    await alone.close();
    await expect(loadEngine(platform, { ...options, draft: 'draft.gguf' })).rejects.toMatchObject({
      code: 'model_too_large',
      message: expect.stringMatching(/with the draft model .*are missing.* leave out --draft/),
    });
  });
});
