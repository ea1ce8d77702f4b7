/** Whole models on the real adapter: compared with the CPU oracle tightly, and with llama.cpp's numbers. */
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { argmax } from '../../kernels/reference/index.ts';
import { openModelFile } from '../../src/engine/formats/open-model-file.ts';
import {
  type GenerateRequest,
  greedySampling,
  loadEngine,
  type ResidentEngine,
} from '../../src/engine/index.ts';
import { testPlatform } from '../support/test-platform.ts';
import type { Runner } from '../../src/engine/execution/runner.ts';
import { memorySource, openSource } from '../support/byte-source.ts';
import { expectClose } from '../support/kernel-harness.ts';
import { llama2cAsGguf } from '../support/llama2c.ts';
import { inEachPrecision, oracleTolerance, roundsToF16 } from '../support/precision.ts';
import { ReferenceGemma4 } from '../support/reference-gemma4.ts';
import { ReferenceModel } from '../support/reference-model.ts';
import { RunnerSequence } from '../support/runner-sequence.ts';
import { describeShared, fixturePath, modelsPath } from '../support/shared.ts';
import { type TinyGemma4, tinyGemma4 } from '../support/tiny-gemma4.ts';
import { loadFromMemory, type TinyModel, tinyModel } from '../support/tiny-model.ts';
import { everyNth } from '../support/tier.ts';

interface GoldenPrompt {
  name: string;
  ids: number[];
  /** 32 tokens of llama.cpp on lathe-tiny-f16. */
  greedy: number[];
  /** [token id, logit] at the last prompt position. */
  top5: [number, number][];
  /** Smallest distance of the two best logits over the 32 tokens. */
  min_gap: number;
}

const promptsOf = (path: string): GoldenPrompt[] =>
  (JSON.parse(readFileSync(path, 'utf8')) as { prompts: GoldenPrompt[] }).prompts;

/** All pages of a small cache, in random order. */
const somePages = Array.from({ length: 32 }, (_, index) => (index * 13 + 5) % 32);

const at = (logits: ArrayLike<number>, id: number): number => logits[id] as number;

/** The output's tokens. */
async function generated(engine: ResidentEngine, request: Partial<GenerateRequest>): Promise<number[]> {
  const ids: number[] = [];
  // Sequences stepped by hand have written to its pages.
  engine.forgetPrefixes();
  const all = { prompt: [], maxTokens: 32, sampling: greedySampling, stop: [], ignoreEnd: true, ...request };
  for await (const event of engine.generate(all)) if (event.type === 'text') ids.push(...event.ids);
  return ids;
}

/**
 * Logits within `tolerance` of llama.cpp's top five; when fed its tokens, each is also ours up to `tolerance`; and
 * the engine's own text is the same until two logits are that close.
 */
async function expectGolden(engine: ResidentEngine, prompt: GoldenPrompt, tolerance: number) {
  const sequence = new RunnerSequence(engine.runner, 0, somePages);
  let logits = await sequence.prefill(prompt.ids, 128);
  for (const [token, logit] of prompt.top5) {
    expect(Math.abs(at(logits, token) - logit), `logit of ${token}`).toBeLessThan(tolerance);
  }
  const ours: number[] = [];
  for (const [step, expected] of prompt.greedy.entries()) {
    const best = argmax(Float32Array.from(logits));
    ours.push(best);
    expect(at(logits, best) - at(logits, expected), `step ${step}`).toBeLessThan(tolerance);
    logits = await sequence.decode(expected);
  }
  const parting = ours.findIndex((id, step) => id !== prompt.greedy[step]);
  const same = parting < 0 ? ours.length : parting + 1;
  const answer = await generated(engine, { prompt: prompt.ids });
  expect(answer.slice(0, same)).toEqual(ours.slice(0, same));
  if (prompt.min_gap > 2 * tolerance) expect(answer).toEqual(prompt.greedy);
}

const quantized = [
  ['the embedded lathe-tiny-q8_0', modelsPath],
  ['the lathe-tiny-q8_0 of the fixtures', fixturePath],
] as const;

describe.each(everyNth(quantized, 2))('%s', (_name, pathOf) => {
  const model = pathOf('lathe-tiny-q8_0.gguf');
  const prompts = promptsOf(pathOf('golden.json'));
  let engine: ResidentEngine;
  beforeAll(async () => {
    engine = await loadEngine(testPlatform(), { model });
  });
  afterAll(() => engine.close());

  // Quantization changes the logits by that much.
  it.each(everyNth(prompts, 3))(
    'logits within 0.25 of the unquantized model in llama.cpp, and its text: $name',
    (prompt) => expectGolden(engine, prompt, 0.25),
  );

  it('every logit of prompts and answers is that of the CPU oracle', async () => {
    const file = await openModelFile(await testPlatform().modelFiles(model));
    const reference = await ReferenceModel.load(file, 'F16');
    await file.close();
    await inEachPrecision(async ({ exact }) => {
      const own = exact ? await loadEngine(testPlatform(), { model, exact }) : engine;
      const { runner } = own;
      for (const name of ['who', 'json', 'tool answer']) {
        const { ids, greedy: answer } = prompts.find((one) => one.name === name) as GoldenPrompt;
        const truth = reference.fork();
        const sequence = new RunnerSequence(runner, 1, somePages);
        const pairs = [[await sequence.prefill(ids, 128), truth.forward(ids).at(-1)]];
        for (const id of answer.slice(0, 12)) pairs.push([await sequence.decode(id), truth.step(id)]);
        for (const [step, [got = [], expected = []]] of pairs.entries())
          expectOracle(runner, got, expected, `${name}, ${step}`);
      }
      if (exact) await own.close();
      return roundsToF16(runner);
    });
  });

  it('greedy text of two prompts, word for word', async () => {
    const text = async (name: string) => {
      const { ids } = prompts.find((one) => one.name === name) as GoldenPrompt;
      const answer = await generated(engine, { prompt: ids, ignoreEnd: false });
      return engine.tokenizer.decode(answer);
    };
    expect(await text('sum')).toMatch(/^23 \+ 45 = 68/);
    expect(await text('capital, one word')).toMatch(/^Paris/);
  });
});

function expectOracle(
  runner: Runner,
  got: ArrayLike<number>,
  expected: ArrayLike<number>,
  what: string,
): void {
  expect(got.length).toBe(expected.length);
  expectClose(got, expected, oracleTolerance(runner), what);
}

describeShared('lathe-tiny-f16 is llama.cpp', ['model/lathe-tiny-f16.gguf'], (path) => {
  let engine: ResidentEngine;
  beforeAll(async () => {
    engine = await loadEngine(testPlatform(), { model: path });
  });
  afterAll(() => engine.close());

  it.each(everyNth(promptsOf(fixturePath('golden.json')), 3))(
    'logits within 0.025, the same 32 tokens when they are 0.05 apart: $name',
    (prompt) => expectGolden(engine, prompt, 0.025),
  );
});

const stories = 'data/weights/stories260K';
describeShared(
  'a llama2.c checkpoint, heads of 8',
  [`${stories}/stories260K.bin`, `${stories}/tok512.bin`],
  (checkpoint, vocabulary) => {
    it('writes the story that its weights are known for', async () => {
      const bytes = llama2cAsGguf(readFileSync(checkpoint), readFileSync(vocabulary));
      const engine = await loadFromMemory(bytes);
      const prompt = engine.tokenizer.encode('');
      const first = prompt.length > 0 ? prompt : [1];
      let text = '';
      for await (const event of engine.generate({
        prompt: first,
        maxTokens: 64,
        sampling: greedySampling,
        stop: [],
      })) {
        if (event.type === 'text') text += event.text;
      }
      expect(text.trim()).toMatch(/^Once upon a time, there was a little girl named Lily\./);
      expect(text).toContain('She wanted to play with it, but it was too high.');
      await engine.close();
    });
  },
);

describe('random weights: every variation of an architecture equals the CPU oracle', () => {
  const plainFactors = Array.from({ length: 32 }, (_, i) => 1 + i / 4);
  const models: Record<string, TinyModel> = {
    'llama in F32, feed-forward of 72': { architecture: 'llama', feedForward: 72 },
    'llama in F16, feed-forward of 100, untied': {
      architecture: 'llama',
      type: 'F16',
      feedForward: 100,
      untied: true,
    },
    'llama in BF16, feed-forward of 33, RoPE factors': {
      architecture: 'llama',
      type: 'BF16',
      feedForward: 33,
      ropeFactors: plainFactors,
    },
    'llama in Q4_0, a quarter of a head rotated, positions stretched': {
      architecture: 'llama',
      type: 'Q4_0',
      rotary: 16,
      ropeScale: 4,
    },
    'llama in Q8_0, seven heads share one': { architecture: 'llama', type: 'Q8_0', heads: 14, kvHeads: 2 },
    'qwen2 with biases, seven heads share one': {
      architecture: 'qwen2',
      biases: true,
      heads: 7,
      kvHeads: 1,
      width: 96,
    },
    'qwen3 with norms of q and k, heads wider than the model': {
      architecture: 'qwen3',
      type: 'Q8_0',
      untied: true,
    },
    'llama with a window, as Mistral has it': { architecture: 'llama', type: 'Q8_0', window: 24 },
    'gemma3, a window in one layer, heads of 256': {
      architecture: 'gemma3',
      type: 'Q8_0',
      heads: 2,
      headDim: 256,
      window: 20,
    },
    'gemma3, odd sizes, positions stretched': {
      architecture: 'gemma3',
      width: 96,
      headDim: 48,
      rotary: 48,
      feedForward: 100,
      window: 7,
      ropeScale: 8,
    },
    'phi3, three quarters of a head of 96 rotated': {
      architecture: 'phi3',
      type: 'Q8_0',
      headDim: 96,
      rotary: 72,
      window: 33,
    },
    'smollm3, one layer without positions': { architecture: 'smollm3', type: 'F16', layers: 5 },
    'granite, all scales, biases': { architecture: 'granite', type: 'Q4_0', biases: true },
    'qwen3moe, three of seven experts': {
      architecture: 'qwen3moe',
      type: 'Q8_0',
      experts: { count: 7, used: 3, feedForward: 96 },
    },
    'qwen3moe, many experts in Q4_0, a dense layer between': {
      architecture: 'qwen3moe',
      layers: 3,
      type: 'Q4_0',
      experts: { count: 48, used: 5, feedForward: 32, dense: [1] },
    },
    'gpt-oss, sinks and biases, a window in one layer': {
      architecture: 'gpt-oss',
      type: 'Q8_0',
      layers: 3,
      window: 20,
      headDim: 32,
      experts: { count: 5, used: 4, feedForward: 160 },
    },
    'gpt-oss in F32, one of three': {
      architecture: 'gpt-oss',
      untied: true,
      width: 96,
      heads: 6,
      kvHeads: 3,
      experts: { count: 3, used: 1, feedForward: 64 },
    },
    'lfm2, a convolution of four before each attention': { architecture: 'lfm2', type: 'Q8_0', layers: 4 },
    'lfm2, two convolutions of two with biases before an attention': {
      architecture: 'lfm2',
      layers: 4,
      width: 96,
      headDim: 32,
      state: { every: 3, kernel: 2, biases: true },
    },
    'qwen3.5, two value heads a key head, a quarter of a head rotated': {
      architecture: 'qwen35',
      type: 'Q8_0',
      layers: 4,
      rotary: 16,
      untied: true,
    },
    'qwen3.5, keys of 128, odd sizes, types that differ inside of one product': {
      architecture: 'qwen35',
      layers: 5,
      width: 96,
      headDim: 32,
      rotary: 12,
      type: { attn_qkv: 'Q8_0', attn_gate: 'Q4_0', ssm_out: 'F16', attn_q: 'Q8_0', ffn_down: 'BF16' },
      state: { every: 4, kernel: 3, keyHeads: 1, valueHeads: 3, keyDim: 128, valueDim: 32 },
    },
    'types that differ inside of one product': {
      architecture: 'qwen2',
      biases: true,
      untied: true,
      type: {
        token_embd: 'Q8_0',
        attn_q: 'F16',
        attn_k: 'Q8_0',
        attn_v: 'Q4_0',
        attn_output: 'BF16',
        ffn_gate: 'Q4_0',
        ffn_up: 'Q8_0',
        ffn_down: 'F16',
        output: 'Q4_0',
      },
    },
  };
  const gemmas: Record<string, TinyGemma4> = {
    'gemma4, the last layers without keys': { type: 'Q8_0' },
    'gemma4, heads of 256 and 512, one layer with keys of each kind': {
      layers: 4,
      every: 2,
      shared: 2,
      heads: 8,
      kvHeads: 1,
      headDim: 512,
      nearDim: 256,
      type: 'Q4_0',
    },
    'gemma4, all layers with keys, no inputs by layer, no bound of logits': {
      shared: 0,
      layerInput: 0,
      cap: 0,
      width: 96,
      window: 7,
      heads: 6,
    },
    'gemma4, values that are keys, fewer heads of them': { shared: 0, keysAreValues: 1, type: 'F16' },
    'gemma4, types that differ, inputs of 64': {
      layers: 5,
      shared: 2,
      layerInput: 64,
      type: { per_layer_token_embd: 'Q4_0', token_embd: 'Q8_0', attn_q: 'Q8_0', attn_k: 'F16', proj: 'Q4_0' },
    },
  };
  const builds = [
    ...Object.entries(models).map(([name, model]) => [name, tinyModel(model), ReferenceModel] as const),
    ...Object.entries(gemmas).map(([name, model]) => [name, tinyGemma4(model), ReferenceGemma4] as const),
  ];
  for (const [name, bytes, oracle] of everyNth(builds, 14)) {
    it(name, async () => {
      const file = await openSource(memorySource(bytes));
      const reference = await oracle.load(file, 'F16');
      // A prompt across a page boundary, then some single tokens.
      const prompt = Array.from({ length: 37 }, (_, i) => (i * 89 + 7) % 288);
      const next = [5, 255, 0, 287];
      const ofPrompt = reference.forward(prompt).at(-1) ?? [];
      const ofNext = next.map((id) => reference.step(id));
      await inEachPrecision(async ({ exact }) => {
        const engine = await loadFromMemory(bytes, { context: 96, parallel: 2, exact });
        const { runner } = engine;
        const sequence = new RunnerSequence(runner, 1, [4, 0, 3]);
        expectOracle(runner, await sequence.prefill(prompt), ofPrompt, 'prompt');
        for (const [n, id] of next.entries())
          expectOracle(runner, await sequence.decode(id), ofNext[n] ?? [], `after ${id}`);
        await engine.close();
        return roundsToF16(runner);
      });
    });
  }
});
