/** The kernels for real GPUs (matrix-vector, tiles, workgroup reductions), run on the available adapter. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openModelFile } from '../../src/engine/formats/open-model-file.ts';
import type { ModelFile } from '../../src/engine/formats/model-file.ts';
import { openGpu } from '../../src/engine/gpu/device.ts';
import { buildGraph } from '../../src/engine/models/registry.ts';
import { Runner } from '../../src/engine/execution/runner.ts';
import { createTokenizer } from '../../src/engine/tokenizer/index.ts';
import { greedySampling } from '../../src/engine/types.ts';
import { testPlatform } from '../support/test-platform.ts';
import { nmse } from '../support/kernel-harness.ts';
import { ReferenceModel } from '../support/reference-model.ts';
import { modelsPath } from '../support/shared.ts';

const text =
  'The capital of Italy is Rome. What is the capital of Spain? It is Madrid, and the sum of 2 and 3 is 5.';

for (const f16 of [true, false]) {
  describe(`the embedded model on the kernels for GPUs, ${f16 ? 'with' : 'without'} shader-f16`, () => {
    let runner: Runner;
    let file: ModelFile;
    let ids: number[];
    let expected: Float32Array[];

    beforeAll(async () => {
      const platform = testPlatform();
      file = await openModelFile(await platform.modelFiles(modelsPath('lathe-tiny-q8_0.gguf')));
      const gpu = await openGpu(await platform.requestAdapter({}), platform.backend);
      ids = createTokenizer(file.metadata).encode(text);
      const reference = await ReferenceModel.load(file);
      expected = ids.map((id) => Float32Array.from(reference.step(id)));
      runner = await Runner.load({
        gpu: { ...gpu, caps: { ...gpu.caps, software: false, f16: f16 && gpu.caps.f16 } },
        file,
        graph: await buildGraph(file),
        capacity: { context: 128, slots: 8, stepTokens: 64, pages: 8 },
        wgsl: await platform.wgsl(),
        onProgress() {},
      });
      for (let slot = 0; slot < 2; slot++)
        runner.setPages(slot, [slot * 4 + 3, slot * 4, slot * 4 + 1, slot * 4 + 2]);
    });
    afterAll(async () => {
      runner.destroy();
      await file.close();
    });

    it('prefills in tiles: the last logits equal the reference', async () => {
      const step = runner.newStep();
      step.clear();
      step.sample(step.prefillTokens(ids, 0, ids.length, 0), 0, ids.length, greedySampling);
      const [logits] = await runner.logits(step);
      expect(nmse(logits ?? [], expected.at(-1) ?? [])).toBeLessThan(f16 ? 1e-5 : 1e-6);
    });

    it('decodes to the same bits alone and together with a prompt, which uses other kernels when it is alone', async () => {
      const step = runner.newStep();
      const first = ids.slice(0, 5);
      step.clear();
      step.prefillTokens(first, 0, first.length, 1);
      await runner.submit(step);
      const decode = async (beside: boolean) => {
        step.clear();
        step.sample(step.decodeToken(ids[5] as number, 5, 1), 1, 6, greedySampling);
        if (beside) step.prefillTokens(ids, 0, ids.length, 0);
        return (await runner.logits(step))[0];
      };
      const alone = await decode(false);
      expect(ids.length).toBeGreaterThan(20);
      expect(await decode(true)).toEqual(alone);
    });

    it('decodes token by token: all logits equal the reference', async () => {
      const step = runner.newStep();
      for (const [position, id] of ids.entries()) {
        step.clear();
        step.sample(step.decodeToken(id, position, 1), 1, position + 1, greedySampling);
        const [logits] = await runner.logits(step);
        expect(nmse(logits ?? [], expected[position] ?? []), `position ${position}`).toBeLessThan(1e-6);
      }
    });
  });
}
