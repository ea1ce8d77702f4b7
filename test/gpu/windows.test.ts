/** Layers with a sliding window: a token attends to the same positions and gives the same text in any step. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openGpu } from '../../src/engine/gpu/device.ts';
import { type GenerateRequest, greedySampling, type ResidentEngine } from '../../src/engine/index.ts';
import { buildGraph } from '../../src/engine/models/registry.ts';
import { Runner } from '../../src/engine/execution/runner.ts';
import { testPlatform } from '../support/test-platform.ts';
import { memorySource, openSource } from '../support/byte-source.ts';
import { expectClose } from '../support/kernel-harness.ts';
import { decodingTolerance, oracleTolerance, roundsToF16 } from '../support/precision.ts';
import { ReferenceModel } from '../support/reference-model.ts';
import { RunnerSequence } from '../support/runner-sequence.ts';
import { loadFromMemory, tinyModel } from '../support/tiny-model.ts';

const window = 40;
const bytes = tinyModel({ architecture: 'gemma3', type: 'Q8_0', layers: 3, headDim: 32, window });
const prompt = Array.from({ length: 300 }, (_, i) => (i * 89 + ((i * i) % 31)) % 288);
const open = () => openSource(memorySource(bytes));

/** A runner whose contexts are split as on a GPU, or not at all. */
async function runnerWith(splitTokens: number, exact: boolean): Promise<Runner> {
  const platform = testPlatform();
  const file = await open();
  return await Runner.load({
    gpu: await openGpu(await platform.requestAdapter({}), platform.backend),
    file,
    graph: await buildGraph(file),
    capacity: { context: 320, slots: 4, stepTokens: 128, pages: 48, splitTokens },
    wgsl: await platform.wgsl(),
    exact,
    onProgress() {},
  });
}

const pagesOf = (slot: number) => Array.from({ length: 10 }, (_, page) => slot * 10 + ((page * 7 + 3) % 10));

describe.each([
  { splitTokens: 4096, exact: false },
  { splitTokens: 64, exact: false },
  // The same as without `exact` on a software adapter.
  { splitTokens: 64, exact: true },
])('with splits of $splitTokens positions, exact: $exact', ({ splitTokens, exact }) => {
  let runner: Runner;
  let reference: ReferenceModel;
  beforeAll(async () => {
    runner = await runnerWith(splitTokens, exact);
    expect(exact && roundsToF16(runner)).toBe(false);
    reference = await ReferenceModel.load(await open(), 'F16');
  });
  afterAll(() => runner.destroy());

  const prefilled = async (slot: number, length: number, chunk: number) => {
    const sequence = new RunnerSequence(runner, slot, pagesOf(slot));
    return { sequence, logits: await sequence.prefill(prompt.slice(0, length), chunk) };
  };

  it('gives the logits of the CPU oracle far beyond the window, and at its edges', async () => {
    const truth = reference.forward(prompt.slice(0, 200));
    for (const length of [1, window - 1, window, window + 1, 64, 65, 103, 104, 105, 200]) {
      const { logits } = await prefilled(0, length, 128);
      const { nmse, maxAbs } = oracleTolerance(runner);
      const tolerance = { nmse, maxAbs: Math.max(maxAbs, 0.02) };
      expectClose(logits, truth[length - 1] ?? [], tolerance, `${length} tokens`);
    }
  });

  it('gives the same bits for any chunks of a prompt', async () => {
    const { logits } = await prefilled(0, 300, 128);
    for (const chunk of [100, 33, 13]) expect((await prefilled(1, 300, chunk)).logits).toEqual(logits);
  });

  it('decodes the same as it prefills, across pages and splits', async () => {
    const { sequence } = await prefilled(0, 90, 128);
    for (let length = 91; length <= 140; length++) {
      const decoded = await sequence.decode(prompt[length - 1] as number);
      const { logits } = await prefilled(1, length, 128);
      const tolerance = decodingTolerance(runner) ?? { nmse: 1e-8, maxAbs: 5e-3 };
      const hasSameBits = decodingTolerance(runner) === undefined && splitTokens > 320;
      // Splits add in another order.
      if (hasSameBits) expect(decoded, `token ${length}`).toEqual(logits);
      else expectClose(decoded, logits, tolerance, `token ${length}`);
    }
  });

  it('gives a token the same bits alone and together with others', async () => {
    const lengths = [20, 41, 170, 295];
    for (const [slot, length] of lengths.entries()) await prefilled(slot, length, 128);
    const step = runner.newStep();
    const next = (slot: number) => {
      const length = lengths[slot] as number;
      step.sample(step.decodeToken(prompt[length] as number, length, slot), slot, length + 1, greedySampling);
    };
    const alone: Float32Array[] = [];
    for (const slot of lengths.keys()) {
      step.clear();
      next(slot);
      alone.push(...(await runner.logits(step)));
    }
    step.clear();
    for (const slot of lengths.keys()) next(slot);
    expect(await runner.logits(step)).toEqual(alone);
  });
});

describe('an engine', () => {
  let engine: ResidentEngine;
  let speculative: ResidentEngine;
  beforeAll(async () => {
    engine = await loadFromMemory(bytes, { context: 320, parallel: 4, speculation: 'off' });
    speculative = await loadFromMemory(bytes, { context: 320, parallel: 4, speculation: 'always' });
  });
  afterAll(async () => {
    await engine.close();
    await speculative.close();
  });

  async function answer(by: ResidentEngine, changes: Partial<GenerateRequest>) {
    const got = { ids: [] as number[], cached: 0 };
    const usual = { prompt, maxTokens: 20, sampling: greedySampling, stop: [], ignoreEnd: true };
    for await (const event of by.generate({ ...usual, ...changes })) {
      if (event.type === 'text') got.ids.push(...event.ids);
      else if (event.type === 'end') got.cached = event.usage.cached_tokens;
    }
    return got;
  }

  it('continues from a cached prefix with the same text as without one', async () => {
    for (const shared of [31, 64, 150, 250]) {
      engine.forgetPrefixes();
      const cold = await answer(engine, {});
      engine.forgetPrefixes();
      // Another text with the same prefix.
      await answer(engine, { prompt: [...prompt.slice(0, shared), 7, 7, 7] });
      const warm = await answer(engine, {});
      expect(warm.cached).toBeGreaterThanOrEqual(shared);
      expect(warm.ids).toEqual(cold.ids);
    }
  });

  it('gives sequences together the same texts as alone', async () => {
    const prompts = [20, 90, 180, 260].map((length) => prompt.slice(300 - length));
    const alone = [];
    for (const one of prompts) alone.push((await answer(engine, { prompt: one, maxTokens: 50 })).ids);
    engine.forgetPrefixes();
    const together = await Promise.all(prompts.map((one) => answer(engine, { prompt: one, maxTokens: 50 })));
    expect(together.map(({ ids }) => ids)).toEqual(alone);
  });

  it('gives the same text with drafts as without', async () => {
    const repeated = Array.from({ length: 180 }, (_, i) => 40 + (i % 9));
    const plain = await answer(engine, { prompt: repeated, maxTokens: 100 });
    const speculated = await answer(speculative, { prompt: repeated, maxTokens: 100 });
    expect(speculated.ids).toEqual(plain.ids);
    expect(speculative.stats().speculation.drafted).toBeGreaterThan(0);
  });

  it('uses kernels with a window only when a text can exceed it', async () => {
    const windowed = ({ runner }: ResidentEngine) =>
      runner.plan.dispatches
        .flatMap(({ choices }) => choices)
        .filter(({ kernel }) => kernel.includes('WINDOW=true'));
    expect(windowed(engine).length).toBeGreaterThan(0);
    const short = await loadFromMemory(bytes, { context: window, parallel: 2 });
    expect(windowed(short)).toEqual([]);
    await short.close();
  });
});
