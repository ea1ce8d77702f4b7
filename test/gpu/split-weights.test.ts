/** Matrices larger than a binding are stored in several buffers, with the same results. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { matmulFamilies, type MatmulFamily } from '../../kernels/matmul.ts';
import type { ModelFile } from '../../src/engine/formats/model-file.ts';
import { BufferPool } from '../../src/engine/gpu/buffers.ts';
import { type Gpu, openGpu } from '../../src/engine/gpu/device.ts';
import { PipelineCache } from '../../src/engine/gpu/pipelines.ts';
import type { Graph } from '../../src/engine/graph/graph.ts';
import { allocateMemory } from '../../src/engine/memory/memory.ts';
import { buildGraph } from '../../src/engine/models/registry.ts';
import { encodePlan, makePlan, vectorsOf, fuseUnits } from '../../src/engine/execution/plan.ts';
import { Tuning } from '../../src/engine/execution/tuning.ts';
import { StepInput } from '../../src/engine/execution/step.ts';
import { greedySampling } from '../../src/engine/types.ts';
import { stackKey } from '../../src/engine/graph/stack-key.ts';
import { stacksOf, WeightLoader } from '../../src/engine/loading/weights.ts';
import { testPlatform } from '../support/test-platform.ts';
import { memorySource, openSource } from '../support/byte-source.ts';
import { expectClose } from '../support/kernel-harness.ts';
import { referenceForward } from '../support/reference-model.ts';
import { tinyModel } from '../support/tiny-model.ts';

let gpu: Gpu;
let file: ModelFile;
let graph: Graph;

beforeAll(async () => {
  const platform = testPlatform();
  gpu = await openGpu(await platform.requestAdapter({}), platform.backend);
  // Rows of two types in one product, biases, and tokens at both ends of the table.
  const bytes = tinyModel({
    architecture: 'qwen2',
    layers: 1,
    biases: true,
    type: { token_embd: 'Q8_0', attn_q: 'F32', attn_k: 'F32', attn_v: 'Q8_0', ffn_down: 'Q8_0' },
  });
  file = await openSource(memorySource(bytes));
  graph = await buildGraph(file);
});
afterAll(() => gpu.device.destroy());

const prompt = [0, 287, 31, 32, 128, 255, 64, 100, 99, 3];

/** The logits after the prompt with no weight buffer larger than the limit, and the number of buffers. */
async function logitsWith(
  maxBindingBytes: number,
  { joined = false } = {},
): Promise<{ logits: Float32Array; parts: number }> {
  const { device } = gpu;
  device.pushErrorScope('validation');
  const pool = new BufferPool(device);
  const capacity = { context: 64, slots: 1, stepTokens: 16, pages: 2 };
  const memory = allocateMemory(new BufferPool(device), graph.shape, capacity);
  const loader = new WeightLoader(file, pool, { maxBindingBytes, onBytes() {} });
  const stacks = new Map<string, ReturnType<WeightLoader['allocate']>>();
  for (const names of stacksOf(graph)) {
    const stack = loader.allocate(names);
    await loader.load([stack]);
    stacks.set(stackKey(names), stack);
  }
  const family = matmulFamilies(gpu.caps)[0] as MatmulFamily;
  const works = joined
    ? fuseUnits({ gpu, tuning: new Tuning() }, graph, family, stacks)
    : graph.units.map((unit) => ({ unit }));
  const vectors = new Map<string, GPUBuffer>();
  for (const [key, names] of vectorsOf(works)) vectors.set(key, await loader.loadVector(names));
  const pipelines = new PipelineCache(device, await testPlatform().wgsl());
  const plan = await makePlan({
    gpu,
    pipelines,
    graph,
    memory,
    weights: { stacks, vectors },
    fusedOps: works,
    family,
    tuning: new Tuning(),
    pool: memory.pool,
  });
  const { layout, tileTokens, splitTokens } = memory;
  const step = new StepInput(layout, { tileTokens, splitTokens });
  step.clear();
  step.sample(step.prefillTokens(prompt, 0, prompt.length, 0), 0, prompt.length, greedySampling);
  device.queue.writeBuffer(memory.pageTable, 0, new Uint32Array([1, 0]));
  device.queue.writeBuffer(memory.step, 0, step.bytes());
  const readback = pool.readback('logits', graph.shape.vocabulary * 4);
  const encoder = device.createCommandEncoder();
  const pass = encoder.beginComputePass();
  encodePlan(pass, plan, step.dims);
  pass.end();
  encoder.copyBufferToBuffer(memory.buffers.logits, 0, readback, 0, graph.shape.vocabulary * 4);
  device.queue.submit([encoder.finish()]);
  await readback.mapAsync(GPUMapMode.READ);
  const logits = new Float32Array(readback.getMappedRange(0, graph.shape.vocabulary * 4).slice(0));
  pool.destroy();
  memory.pool.destroy();
  expect(await device.popErrorScope()).toBeNull();
  const parts = [...stacks.values()].reduce((sum, stack) => sum + stack.parts.length, 0);
  return { logits, parts };
}

describe('weights split by rows', () => {
  it('give the same bits as whole ones: embedding, logits, a product with biases, a sum with the residual', async () => {
    const whole = await logitsWith(2 ** 27);
    const expected = (await referenceForward(file, prompt)).at(-1) ?? [];
    expectClose(whole.logits, expected, { nmse: 1e-5, maxAbs: 0.1 }, 'whole');
    // A dozen rows in each buffer, and one row of the widest: [64, 256] in F32.
    for (const limit of [4096, 1024]) {
      const split = await logitsWith(limit);
      expect(split.parts).toBeGreaterThan(10 * whole.parts);
      expect(split.logits).toEqual(whole.logits);
    }
  });

  it("fused operations give the oracle's logits too", async () => {
    const expected = (await referenceForward(file, prompt)).at(-1) ?? [];
    // What is fused depends on how the weights are split, and fused norms round differently.
    for (const limit of [2 ** 27, 16_384, 4096, 1024]) {
      const { logits } = await logitsWith(limit, { joined: true });
      expectClose(logits, expected, { nmse: 1e-5, maxAbs: 0.1 }, `at most ${limit} bytes a buffer`);
    }
  });
});
