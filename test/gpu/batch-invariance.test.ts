/**
 * The result of a request does not depend on what else its steps contain, on the kernels for GPUs either: a row always runs
 * on the kernels of its kind, whatever the number of rows (docs/decisions/engine.md).
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { StepDims } from '../../kernels/define.ts';
import { loadEngine, type ResidentEngine } from '../../src/engine/index.ts';
import { pipelineChoicesOf } from '../../src/engine/execution/plan.ts';
import type { StepInput } from '../../src/engine/execution/step.ts';
import { type GenerateRequest, greedySampling } from '../../src/engine/types.ts';
import { platforms } from '../support/architectures.ts';
import { type Answer, narrowed, read } from '../support/crowd.ts';
import { random } from '../support/kernel-harness.ts';
import { logitsAt, takePages } from '../support/logits-at.ts';
import { selectCases } from '../support/tier.ts';
import { memoryPlatform, tinyModel } from '../support/tiny-model.ts';

const models = [
  ['llama', () => tinyModel({ architecture: 'llama', type: 'Q8_0' })],
  ['qwen3', () => tinyModel({ architecture: 'qwen3', type: 'Q4_0' })],
  ['gemma3 with windows', () => tinyModel({ architecture: 'gemma3', window: 20 })],
  ['qwen3moe', () => tinyModel({ architecture: 'qwen3moe', type: 'Q8_0' })],
  ['lfm2', () => tinyModel({ architecture: 'lfm2', layers: 4 })],
] as const;
/** One with experts, one with states. */
const sampledModels: readonly string[] = ['qwen3moe', 'lfm2'];

const vocabulary = 256;
const tokens = (count: number, seed: number): number[] => {
  const next = random(seed);
  return Array.from({ length: count }, () => Math.floor(next() * vocabulary));
};

/** Sixteen requests: prompts of one token to several chunks, short answers and long ones, every other one seeded. */
const requests = [1, 2, 3, 7, 8, 9, 15, 24, 31, 33, 40, 64, 65, 70, 90, 100].map(
  (length, n): GenerateRequest => ({
    prompt: tokens(length, n + 1),
    maxTokens: n % 3 === 0 ? 70 : 2 + (n % 8),
    sampling: { ...greedySampling, ...(n % 2 === 0 ? { temperature: 0.9, topP: 0.95, seed: n } : {}) },
    stop: [],
    ignoreEnd: true,
    logprobs: 2,
    // A prompt that is scored runs in small chunks.
    promptLogprobs: n === 9,
  }),
);

describe.each(selectCases(models, ([name]) => sampledModels.includes(name)))('%s', (_, bytes) => {
  let engine: ResidentEngine;
  let hasStates = false;
  const alone: Answer[] = [];

  beforeAll(async () => {
    engine = await loadEngine(
      {
        ...memoryPlatform(bytes()),
        requestAdapter: (options) => platforms.hardware.requestAdapter(options),
      },
      { model: 'memory.gguf', context: 192, parallel: 8, speculation: 'off', exact: true },
    );
    hasStates = engine.runner.memory.capacity.retainedStates !== undefined;
    for (const request of requests) {
      engine.forgetPrefixes();
      alone.push(await read(engine.generate(request)));
    }
  });
  afterAll(() => engine.close());

  it.each([
    { slots: 8, pages: 40, stepTokens: 100 },
    // Too few pages for all: sequences are preempted and computed again.
    { slots: 5, pages: 6, stepTokens: 24 },
  ])(
    'requests get the same tokens and log probabilities together as alone: $slots slots, $pages pages',
    async (room) => {
      const by = narrowed(engine, hasStates ? { ...room, retainedStates: 1 } : room);
      const answers = await Promise.all(
        requests.map(async (request, n) => {
          await by.after(n % 4);
          return read(by.generate(request).events);
        }),
      );
      expect(by.failures).toEqual([]);
      expect(by.counts.preemptions > 0).toBe(room.pages < 40);
      for (const [n, { ids, logprobs, prompt }] of answers.entries()) {
        const wanted = alone[n] as Answer;
        expect(ids, `request ${n}`).toEqual(wanted.ids);
        expect(logprobs, `log probabilities of request ${n}`).toEqual(wanted.logprobs);
        expect(prompt, `prompt of request ${n}`).toEqual(wanted.prompt);
      }
    },
  );

  /** Runs a step beside which other rows are computed. */
  const slot = 0;
  const logitsOf = async (fill: (step: StepInput) => void): Promise<Float32Array[]> => {
    const step = engine.runner.newStep();
    fill(step);
    return engine.runner.logits(step);
  };
  const text = tokens(60, 99);
  const decode = (step: StepInput, position: number) =>
    step.sample(
      step.decodeToken(text[position] as number, position, slot),
      slot,
      position + 1,
      greedySampling,
    );

  it('a prompt gets the same logits in chunks of any size, and beside decoded rows', async () => {
    for (let other = 0; other < 3; other++) takePages(engine.runner, other);
    const positions = [0, 1, 8, 30, 44];
    const ids = text.slice(0, 45);
    const expected = await logitsAt(engine.runner, ids, positions);
    for (const chunks of [[1], [2, 7], [9], [33, 3, 8, 1]])
      expect(await logitsAt(engine.runner, ids, positions, { chunks }), `chunks ${chunks.join()}`).toEqual(
        expected,
      );
    const last = await logitsOf((step) => {
      for (const other of [1, 2]) step.decodeToken(1, 0, other);
      step.sample(step.prefillTokens(ids, 0, ids.length, slot), slot, ids.length, greedySampling);
    });
    expect(last).toEqual(expected.slice(-1));
  });

  it('a decoded token gets the same logits beside any other rows, and in a row with others of its text', async () => {
    for (let other = 0; other < 8; other++) takePages(engine.runner, other);
    const first = 30;
    // Another text first, so that no later position holds what it will be written.
    const prefill = async () => {
      await logitsAt(engine.runner, tokens(60, 98), []);
      await logitsAt(engine.runner, text.slice(0, first), []);
    };
    await prefill();
    const expected: Float32Array[] = [];
    for (let position = first; position < first + 5; position++)
      expected.push(...(await logitsOf((step) => decode(step, position))));
    for (const others of [1, 3, 7]) {
      await prefill();
      for (let position = first; position < first + 5; position++) {
        const [logits] = await logitsOf((step) => {
          decode(step, position);
          for (let other = 1; other <= others; other++) step.decodeToken(other, 0, other);
          step.prefillTokens(text, 0, position, 7);
        });
        expect(logits, `position ${position} beside ${others}`).toEqual(expected[position - first]);
      }
    }
    await prefill();
    const verified = await logitsOf((step) => {
      const row = step.verifyTokens(text[first] as number, text.slice(first + 1, first + 5), first, slot);
      for (let n = 0; n < 5; n++) step.sample(row + n, slot, first + n + 1, greedySampling);
      step.decodeToken(1, 0, 1);
    });
    expect(verified).toEqual(expected);
    await prefill();
    await logitsOf((step) => {
      step.decodeTokens(text.slice(first, first + 4), first, slot);
      step.sample(step.prefillTokens(text, 0, 9, 1), 1, 9, greedySampling);
    });
    expect(await logitsOf((step) => decode(step, first + 4))).toEqual(expected.slice(-1));
  });

  it('a step with one kind of rows has one dispatch for each', () => {
    const { dispatches } = engine.runner.plan;
    const encoded = (dims: StepDims) =>
      dispatches.map((dispatch) =>
        pipelineChoicesOf(dispatch, dims).filter((choice) => !choice.grid(dims).includes(0)),
      );
    const dimsOf = (fill: (step: StepInput) => void) => {
      const step = engine.runner.newStep();
      fill(step);
      return encoded(step.dims);
    };
    const decoded = dimsOf((step) => [0, 1, 2].forEach((other) => step.decodeToken(1, 9, other)));
    const prompt = dimsOf((step) => void step.prefillTokens(text, 0, 3, 0));
    for (const list of [decoded, prompt]) expect(Math.max(...list.map(({ length }) => length))).toBe(1);
    const mixed = dimsOf((step) => {
      step.decodeToken(1, 9, 1);
      step.prefillTokens(text, 0, 3, 0);
    });
    expect(mixed.filter(({ length }) => length === 2).length).toBeGreaterThan(4);
    // Workgroups of a software adapter run in order and find the keys of earlier ones; those of a GPU need a second run.
    const again = dispatches.map(({ id }) => id.endsWith('.again'));
    const verified = dimsOf((step) => void step.verifyTokens(1, [2, 3], 9, 0));
    expect(again).toContain(true);
    expect(verified.filter((list, n) => again[n] && list.length === 0)).toEqual([]);
    for (const list of [decoded, prompt, mixed])
      expect(list.filter((one, n) => again[n] && one.length > 0)).toEqual([]);
  });
});
