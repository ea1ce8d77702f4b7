/** The choice of kernels: measured once, kept, and never without need less exact. */
import { describe, expect, it } from 'vitest';
import { type MatmulFamily, matmulFamilies } from '../../kernels/matmul.ts';
import { int8Tolerance, klDivergence } from '../../src/engine/divergence.ts';
import { openGguf } from '../../src/engine/formats/gguf.ts';
import { openGpu } from '../../src/engine/gpu/device.ts';
import { loadEngine } from '../../src/engine/index.ts';
import { buildGraph } from '../../src/engine/models/registry.ts';
import type { Store } from '../../src/engine/platform.ts';
import { Runner } from '../../src/engine/runner.ts';
import { createTokenizer } from '../../src/engine/tokenizer/index.ts';
import { loadTimes, saveTimes } from '../../src/engine/tuning-file.ts';
import { Tuning } from '../../src/engine/tuning.ts';
import { greedy } from '../../src/engine/types.ts';
import { nodePlatform } from '../../src/platform/node.ts';
import { memoryPlatform, tinyModel } from '../support/tiny-model.ts';
import { modelsPath } from '../support/shared.ts';

const memoryStore = (): Store & { files: Map<string, string> } => {
  const files = new Map<string, string>();
  return {
    files,
    read: async (name) => files.get(name),
    write: async (name, text) => void files.set(name, text),
  };
};

describe('kernels are measured at the first start', () => {
  const bytes = tinyModel({ architecture: 'llama', layers: 1, type: 'Q8_0', feedForward: 128 });

  const start = async (store: Store) => {
    const notices: string[] = [];
    const stages = new Set<string>();
    const engine = await loadEngine(
      { ...memoryPlatform(bytes), store },
      {
        model: 'memory.gguf',
        onNotice: (message) => notices.push(message),
        onProgress: ({ stage }) => stages.add(stage),
      },
    );
    const answer = { prompt: [1, 2, 3], maxTokens: 4, sampling: greedy, stop: [], ignoreEnd: true };
    const ids: number[] = [];
    for await (const event of engine.generate(answer)) if (event.type === 'text') ids.push(...event.ids);
    await engine.close();
    return { notices: notices.filter((notice) => notice.startsWith('measured')), stages, ids };
  };

  it('said, kept, and not again; a damaged file is measured again', async () => {
    const store = memoryStore();
    const first = await start(store);
    expect(first.notices).toHaveLength(1);
    expect(first.notices[0]).toMatch(/^measured [1-9]\d* kernels on .+ in \d+\.\d s, once: row-a-/);
    expect(first.stages).toContain('measure');
    const [[name, text]] = [...store.files] as [[string, string]];
    expect(Object.values(JSON.parse(text) as object).length).toBeGreaterThan(3);

    const second = await start(store);
    expect(second.notices).toEqual([]);
    expect(second.stages).not.toContain('measure');
    expect(second.ids).toEqual(first.ids);

    store.files.set(name, text.slice(0, -20));
    expect((await start(store)).notices).toHaveLength(1);
    expect(JSON.parse(store.files.get(name) as string)).toBeTypeOf('object');
  });

  it('a store that cannot be written costs a notice, not the start', async () => {
    const store: Store = { read: async () => undefined, write: () => Promise.reject(new Error('ENOSPC')) };
    expect((await start(store)).ids.length).toBeGreaterThan(0);
  });
});

describe('activations rounded to 8 bits', () => {
  const text =
    'The capital of Italy is Rome. What is the capital of Spain? It is Madrid, and the sum of 2 and 3 is 5.';

  /** The embedded model on the kernels for GPUs, where measurements say that rounding is faster. */
  async function load(exact: boolean) {
    const platform = nodePlatform();
    const file = await openGguf(await platform.openModel(modelsPath('lathe-tiny-q8_0.gguf')));
    const gpu = await openGpu(await platform.requestAdapter({}), platform.backend);
    const forGpu = { ...gpu, caps: { ...gpu.caps, software: false } };
    const wgsl = await platform.wgsl();
    const graph = await buildGraph(file);
    const [family] = matmulFamilies(forGpu.caps, true) as [MatmulFamily];
    const tuning = new Tuning();
    for (const unit of graph.units) {
      if (unit.op !== 'matmul') continue;
      const shapes = unit.weights.map((name) => file.tensors.get(name)?.shape ?? []);
      const rows = shapes.reduce((sum, [count = 0]) => sum + count, 0);
      const product = { format: 'q8_0', rows, blocks: (shapes[0]?.[1] ?? 0) / 32 };
      for (const { upTo, options } of family.classes('q8_0')) {
        for (const option of options) tuning.record(family, product, upTo, option, option.int8 ? 0.1 : 1);
      }
      // The other family too: nothing is left to measure.
      for (const other of matmulFamilies(forGpu.caps, true).slice(1)) {
        for (const { upTo, options } of other.classes('q8_0').slice(0, 1)) {
          for (const option of options) tuning.record(other, product, upTo, option, 5);
        }
      }
    }
    const store = memoryStore();
    const { key } = await loadTimes(store, gpu.facts, wgsl);
    await saveTimes(store, key, tuning.times);
    const notices: string[] = [];
    const runner = await Runner.load({
      gpu: forGpu,
      file,
      graph,
      capacity: { context: 128, slots: 2, stepTokens: 64, pages: 8 },
      wgsl,
      store,
      exact,
      onProgress() {},
      onNotice: (message) => notices.push(message),
    });
    const ids = createTokenizer(file.metadata).encode(text);
    runner.setPages(0, [0, 1, 2, 3]);
    const step = runner.newStep();
    step.clear();
    step.sample(step.prefillTokens(ids, 0, ids.length, 0), 0, ids.length, greedy);
    const [logits] = await runner.logits(step);
    const { int8 } = runner.plan;
    runner.destroy();
    await file.close();
    return { logits: logits as Float32Array, int8, notices };
  }

  it('move the prediction by less than the tolerance, are said, and --exact forbids them', async () => {
    const rounded = await load(false);
    expect(rounded.int8).toBe(true);
    expect(rounded.notices.join()).toMatch(/rounded to 8 bits where that was faster: KL \S+ nats/);
    const exact = await load(true);
    expect(exact.int8).toBe(false);
    expect(exact.notices.join()).not.toContain('8 bits');
    expect(rounded.logits).not.toEqual(exact.logits);
    const divergence = klDivergence(exact.logits, rounded.logits);
    expect(divergence).toBeLessThan(int8Tolerance);
  });
});
