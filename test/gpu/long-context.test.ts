/** Contexts that attention reads in several splits, and steps with sequences of very different lengths. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openModelFile } from '../../src/engine/formats/open-model-file.ts';
import { openGpu } from '../../src/engine/gpu/device.ts';
import { greedySampling } from '../../src/engine/index.ts';
import { buildGraph } from '../../src/engine/models/registry.ts';
import { Runner } from '../../src/engine/execution/runner.ts';
import { createTokenizer } from '../../src/engine/tokenizer/index.ts';
import { testPlatform } from '../support/test-platform.ts';
import { expectClose } from '../support/kernel-harness.ts';
import { decodingTolerance, oracleTolerance } from '../support/precision.ts';
import { ReferenceModel } from '../support/reference-model.ts';
import { RunnerSequence } from '../support/runner-sequence.ts';
import { fixtureModel } from '../support/shared.ts';
import { runsRest } from '../support/tier.ts';

const model = fixtureModel;
let engine: { runner: Runner };
let prompt: number[];

beforeAll(async () => {
  const platform = testPlatform();
  const file = await openModelFile(await platform.modelFiles(model));
  // Splits as on a GPU: a software adapter only splits beyond 4,096 tokens.
  engine = {
    runner: await Runner.load({
      gpu: await openGpu(await platform.requestAdapter({}), platform.backend),
      file,
      graph: await buildGraph(file),
      capacity: { context: 1024, slots: 8, stepTokens: 128, pages: 256, splitTokens: 512 },
      wgsl: await platform.wgsl(),
      onProgress() {},
    }),
  };
  const tokenizer = createTokenizer(file.metadata);
  await file.close();
  const sentences = Array.from(
    { length: 80 },
    (_, n) => `In year ${n * 17} Mia saw ${n} ships near the beach.`,
  );
  prompt = tokenizer.encode(sentences.join(' ')).slice(0, 1000);
  expect(prompt.length).toBe(1000);
});
afterAll(() => engine.runner.destroy());

/** Pages of a slot, different for each slot and in random order. */
const pagesOf = (slot: number) => Array.from({ length: 32 }, (_, page) => slot * 32 + ((page * 11 + 3) % 32));

/** A sequence whose first tokens are already written. */
async function written(slot: number, tokens: number): Promise<RunnerSequence> {
  const sequence = new RunnerSequence(engine.runner, slot, pagesOf(slot));
  await sequence.prefill(prompt.slice(0, tokens), 128);
  return sequence;
}

describe('a long context', () => {
  it.runIf(runsRest)('decodes the same as it prefills, across the boundary of two splits', async () => {
    const decoding = await written(0, 505);
    for (let position = 505; position < 520; position++) {
      const decoded = await decoding.decode(prompt[position] as number);
      const prefilled = new RunnerSequence(engine.runner, 1, pagesOf(1));
      const expected = await prefilled.prefill(prompt.slice(0, position + 1), 128);
      // Measured on lavapipe at most 3e-9 and 7e-4: splits add in another order.
      const tolerance = decodingTolerance(engine.runner) ?? { nmse: 1e-8, maxAbs: 5e-3 };
      expectClose(decoded, expected, tolerance, `position ${position}`);
    }
  });

  it.runIf(runsRest)('gives the logits of the CPU oracle at its last positions', async () => {
    const file = await openModelFile(await testPlatform().modelFiles(model));
    const reference = await ReferenceModel.load(file, 'F16');
    await file.close();
    reference.forward(prompt.slice(0, 640));
    const sequence = await written(2, 640);
    for (const id of prompt.slice(640, 643)) {
      const { nmse, maxAbs } = oracleTolerance(engine.runner);
      const tolerance = { nmse, maxAbs: Math.max(maxAbs, 0.02) };
      expectClose(await sequence.decode(id), reference.step(id), tolerance, 'logits');
    }
  });
});

describe('a decoded token', () => {
  it('has the same bits alone and together with sequences of any length, up to all slots', async () => {
    const { runner } = engine;
    const lengths = [40, 900, 513, 512, 31, 32, 700, 1];
    for (const [slot, length] of lengths.entries()) await written(slot, length);
    const step = runner.newStep();
    const next = (slot: number) => {
      const position = lengths[slot] as number;
      step.sample(
        step.decodeToken(prompt[position] as number, position, slot),
        slot,
        position + 1,
        greedySampling,
      );
    };
    // A step writes the same keys and values each time it runs.
    const alone: Float32Array[] = [];
    for (const slot of lengths.keys()) {
      step.clear();
      next(slot);
      alone.push(...(await runner.logits(step)));
    }
    for (const company of [
      [0, 4],
      [0, 1],
      [4, 1, 2],
      [7, 6, 5, 4, 3, 2, 1, 0],
    ]) {
      step.clear();
      for (const slot of company) next(slot);
      const together = await runner.logits(step);
      for (const [row, slot] of company.entries()) {
        expect(together[row], `slot ${slot} beside ${company.join()}`).toEqual(alone[slot]);
      }
    }
  });

  it('has the same bits together with a prompt that is prefilled in the same step', async () => {
    const { runner } = engine;
    await written(0, 50);
    const step = runner.newStep();
    const decode = () => step.sample(step.decodeToken(prompt[50] as number, 50, 0), 0, 51, greedySampling);
    step.clear();
    decode();
    const [alone] = await runner.logits(step);
    runner.setPages(1, pagesOf(1));
    step.clear();
    decode();
    step.prefillTokens(prompt, 0, 77, 1);
    const [beside] = await runner.logits(step);
    expect(beside).toEqual(alone);
  });
});
