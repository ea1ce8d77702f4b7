/** The choice of kernels: measured once, stored, and never less exact than needed. */
import { describe, expect, it } from 'vitest';
import { type MatmulFamily, matmulFamilies } from '../../kernels/matmul.ts';
import { int8Tolerance, klDivergence } from '../../src/engine/execution/divergence.ts';
import { openModelFile } from '../../src/engine/formats/open-model-file.ts';
import { openGpu } from '../../src/engine/gpu/device.ts';
import { loadEngine } from '../../src/engine/index.ts';
import { buildGraph } from '../../src/engine/models/registry.ts';
import type { Store } from '../../src/engine/platform.ts';
import { prepareModel } from '../../src/engine/loading/prepare-model.ts';
import { Runner } from '../../src/engine/execution/runner.ts';
import { createTokenizer } from '../../src/engine/tokenizer/index.ts';
import { isMeasured, tune } from '../../src/engine/execution/tuner.ts';
import { loadTimes, saveTimes } from '../../src/engine/execution/tuning-file.ts';
import { Tuning } from '../../src/engine/execution/tuning.ts';
import { greedySampling } from '../../src/engine/types.ts';
import { expectClose } from '../support/kernel-harness.ts';
import { RunnerSequence } from '../support/runner-sequence.ts';
import { testPlatform } from '../support/test-platform.ts';
import { memorySource, openSource } from '../support/byte-source.ts';
import { memoryPlatform, tinyModel } from '../support/tiny-model.ts';
import { fixtureModel } from '../support/shared.ts';
import { runsRest } from '../support/tier.ts';

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

  const start = async (store: Store, retune = false) => {
    const notices: string[] = [];
    const stages = new Set<string>();
    const engine = await loadEngine(
      { ...memoryPlatform(bytes), store },
      {
        model: 'memory.gguf',
        retune,
        onNotice: (message) => notices.push(message),
        onProgress: ({ stage }) => stages.add(stage),
      },
    );
    const answer = { prompt: [1, 2, 3], maxTokens: 4, sampling: greedySampling, stop: [], ignoreEnd: true };
    const ids: number[] = [];
    for await (const event of engine.generate(answer)) if (event.type === 'text') ids.push(...event.ids);
    await engine.close();
    return { notices: notices.filter((notice) => notice.startsWith('measured')), all: notices, stages, ids };
  };

  it('reports, stores and does not repeat measurements; a damaged file is measured again', async () => {
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

    expect((await start(store, true)).notices, 'asked to').toHaveLength(1);

    store.files.set(name, text.slice(0, -20));
    expect((await start(store)).notices).toHaveLength(1);
    expect(JSON.parse(store.files.get(name) as string)).toBeTypeOf('object');
  });

  it('a store that cannot be written gives a notice, not a failed start', async () => {
    const store: Store = { read: async () => undefined, write: () => Promise.reject(new Error('ENOSPC')) };
    const started = await start(store);
    expect(started.ids.length).toBeGreaterThan(0);
    expect(started.all.join()).toMatch(/could not be saved, .*ENOSPC/);
  });
});

describe('measuring', () => {
  const bytes = tinyModel({ architecture: 'llama', layers: 1, type: 'Q8_0', feedForward: 128 });

  /** @param spoil changes sources; `others` are those of the family that is not the adapter's default */
  async function prepared(spoil: (wgsl: Map<string, string>, others: string) => void) {
    const platform = testPlatform();
    const file = await openSource(memorySource(bytes));
    const gpu = await openGpu(await platform.requestAdapter({}), platform.backend);
    const graph = await buildGraph(file);
    const wgsl = new Map(await platform.wgsl());
    spoil(wgsl, gpu.caps.software ? 'lib/matvec_results.wgsl' : 'matmul.wgsl');
    const store = memoryStore();
    const capacity = { context: 64, slots: 2, stepTokens: 32, pages: 4 };
    const loading = await prepareModel({ gpu, file, graph, capacity, wgsl, store, onProgress() {} });
    return { ...loading, gpu, graph };
  }

  it.each([
    ['does not compile', (text: string) => `${text}\nfn broken( {`],
    [
      'computes something else',
      (text: string) =>
        text.replace('write_result(token, row, value)', 'write_result(token, row, 1.5 * value)'),
    ],
    [
      'writes nothing',
      (text: string) => text.replace('value = write_result(token, row, value);', 'value += 1.0;'),
    ],
  ])('a kernel that %s is not selected and does not abort the start', async (_, spoil) => {
    let source = '';
    const { tuning, family, gpu, destroy } = await prepared((wgsl, others) => {
      source = others;
      const text = wgsl.get(source) as string;
      wgsl.set(source, spoil(text));
      expect(wgsl.get(source)).not.toBe(text);
    });
    expect(family.name).toBe(gpu.caps.software ? 'row-a-thread' : 'row-a-subgroup');
    const spoiled = Object.values(tuning.times).flatMap((byOption) =>
      Object.entries(byOption).filter(([key]) =>
        key.includes(source === 'matmul.wgsl' ? ` ${source}` : ' matvec'),
      ),
    );
    expect(spoiled.length).toBeGreaterThan(0);
    for (const [, ms] of spoiled) expect(ms).toBe(1e9);
    destroy();
    gpu.device.destroy();
  });

  it('stops when its time budget is used up, and reports it', async () => {
    const { gpu, graph, memory, pipelines, weights, destroy } = await prepared(() => undefined);
    const tuning = new Tuning();
    let clock = 0;
    const outcome = await tune({ gpu, memory, pipelines }, graph, weights.stacks, tuning, {
      budgetMs: 10,
      now: () => clock,
      onMeasured: () => (clock += 11),
    });
    expect(outcome.complete).toBe(false);
    expect(Object.keys(tuning.times)).toHaveLength(1);
    expect(await isMeasured({ gpu, memory, pipelines }, graph, weights.stacks, tuning)).toBe(false);
    destroy();
    gpu.device.destroy();
  });
});

describe('tiles and splits of attention that measurements choose', () => {
  // Three heads share a key, so that a workgroup has room for more tokens.
  const bytes = tinyModel({
    architecture: 'llama',
    layers: 2,
    heads: 3,
    kvHeads: 1,
    type: 'Q8_0',
    feedForward: 128,
  });
  const text = Array.from({ length: 300 }, (_, i) => (i * 89 + ((i * i) % 31)) % 256);
  const pagesOf = (slot: number) =>
    Array.from({ length: 10 }, (_, page) => slot * 10 + ((page * 7 + 3) % 10));

  async function load(store: Store): Promise<{ runner: Runner; notices: string[] }> {
    const platform = testPlatform();
    const file = await openSource(memorySource(bytes));
    const gpu = await openGpu(await platform.requestAdapter({}), platform.backend);
    const notices: string[] = [];
    const runner = await Runner.load({
      gpu,
      file,
      graph: await buildGraph(file),
      // Splits as on a GPU: a software adapter only splits beyond 4,096 tokens.
      capacity: { context: 320, slots: 3, stepTokens: 64, pages: 30, splitTokens: 256 },
      wgsl: await platform.wgsl(),
      store,
      onProgress() {},
      onNotice: (message) => notices.push(message),
    });
    return { runner, notices };
  }

  /** The same measurements with these options of attention as the fastest. */
  function favor(store: Store & { files: Map<string, string> }, wanted: RegExp): void {
    const [name, json] = [...store.files].find(([key]) => key.startsWith('kernels-')) as [string, string];
    const times = JSON.parse(json) as Record<string, Record<string, number>>;
    for (const [subject, byOption] of Object.entries(times).filter(([key]) => key.includes('attention'))) {
      expect(Object.keys(byOption).length, subject).toBeGreaterThan(1);
      for (const option of Object.keys(byOption)) byOption[option] = wanted.test(option) ? 0.1 : 1;
    }
    store.files.set(name, JSON.stringify(times));
  }

  it('are used without measuring again; a prompt keeps its bits, and a decoded token does not depend on its batch', async () => {
    const store = memoryStore();
    const first = await load(store);
    expect(first.notices.join()).toMatch(/measured \d+ kernels .*; prompts in tiles of \d, contexts /);
    first.runner.destroy();

    const results = [];
    for (const [wanted, tileTokens, splits] of [
      [/tiles of 2|whole/, 2, []],
      [/tiles of 8|parts of 64/, 8, [{ from: 256, tokens: 64 }]],
    ] as const) {
      favor(store, wanted);
      const { runner, notices } = await load(store);
      expect(notices.filter((notice) => notice.startsWith('measured'))).toEqual([]);
      expect(runner.tiling).toEqual({ tileTokens, splits });
      const [one, other] = [0, 1].map((slot) => new RunnerSequence(runner, slot, pagesOf(slot))) as [
        RunnerSequence,
        RunnerSequence,
      ];
      const prompt = await one.prefill(text.slice(0, 290), 64);
      await other.prefill(text.slice(0, 40), 64);
      const alone = await one.decode(text[290] as number);
      const step = runner.newStep();
      step.clear();
      step.sample(step.decodeToken(text[290] as number, 290, 0), 0, 291, greedySampling);
      step.sample(step.decodeToken(text[40] as number, 40, 1), 1, 41, greedySampling);
      expect(step.dims.splitTiles).toBe(splits.length);
      const [beside] = await runner.logits(step);
      expect(beside).toEqual(Float32Array.from(alone));
      results.push({ prompt: Float32Array.from(prompt), alone: Float32Array.from(alone) });
      runner.destroy();
    }
    const [before, after] = results as [(typeof results)[0], (typeof results)[0]];
    expect(after.prompt).toEqual(before.prompt);
    expectClose(after.alone, before.alone, { nmse: 1e-8, maxAbs: 5e-3 }, 'a split context');
    expect(after.alone).not.toEqual(before.alone);
  });
});

describe('activations rounded to 8 bits', () => {
  const text =
    'The capital of Italy is Rome. What is the capital of Spain? It is Madrid, and the sum of 2 and 3 is 5.';

  /** The embedded model on the kernels for GPUs, with measurements that favor rounding. */
  async function load(exact: boolean) {
    const platform = testPlatform();
    const file = await openModelFile(await platform.modelFiles(fixtureModel));
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
        for (const { upTo, options } of other.classes('q8_0')) {
          for (const option of options) tuning.record(other, product, upTo, option, 5);
        }
      }
    }
    const store = memoryStore();
    const { key } = await loadTimes(store, forGpu, wgsl);
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
    step.sample(step.prefillTokens(ids, 0, ids.length, 0), 0, ids.length, greedySampling);
    const [logits] = await runner.logits(step);
    const { int8 } = runner.plan;
    runner.destroy();
    await file.close();
    return { logits: logits as Float32Array, int8, notices };
  }

  it.runIf(runsRest)(
    'move the prediction by less than the tolerance, are reported, and are disabled by --exact',
    async () => {
      const rounded = await load(false);
      expect(rounded.int8).toBe(true);
      expect(rounded.notices.join()).toMatch(/rounded to 8 bits where that is faster: KL \S+ nats/);
      const exact = await load(true);
      expect(exact.int8).toBe(false);
      expect(exact.notices.join()).not.toContain('8 bits');
      expect(rounded.logits).not.toEqual(exact.logits);
      const divergence = klDivergence(exact.logits, rounded.logits);
      expect(divergence).toBeLessThan(int8Tolerance);
    },
  );
});
