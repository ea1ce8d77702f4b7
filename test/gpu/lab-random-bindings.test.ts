/** With correct kernels on any combination of targets, the model gives the same results. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { WgslSources } from '../../kernels/assemble.ts';
import {
  type Binding,
  greedySampling,
  klDivergence,
  type LabKernel,
  loadEngine,
  oneTokenSibling,
  overlappingBindings,
  type ResidentEngine,
  type Target,
  targetsOf,
} from '../../src/engine/index.ts';
import { describeGraph } from '../../src/lab/live/describe.ts';
import { stubKernel, unfusedKernels } from '../../src/lab/live/lab-kernel.ts';
import { LiveTargets } from '../../src/lab/live/live-targets.ts';
import { Random } from '../../src/lab/ops/random.ts';
import { testPlatform } from '../support/test-platform.ts';
import { fixtureModel } from '../support/shared.ts';
import { tinyGemma4 } from '../support/tiny-gemma4.ts';
import { loadFromMemory, type TinyModel, tinyModel } from '../support/tiny-model.ts';
import { everyNth } from '../support/tier.ts';

const models: Readonly<Record<string, string | TinyModel | Uint8Array>> = {
  'lathe-tiny': fixtureModel,
  'qwen2, biases': { architecture: 'qwen2', biases: true, type: 'Q8_0' },
  'qwen2, odd sizes, products of several types': {
    architecture: 'qwen2',
    biases: true,
    heads: 4,
    kvHeads: 2,
    headDim: 40,
    width: 96,
    feedForward: 160,
    rotary: 24,
    untied: true,
    type: { attn_q: 'Q4_0', attn_k: 'Q8_0', attn_v: 'F16', ffn_gate: 'Q8_0', ffn_up: 'Q4_0', output: 'Q4_0' },
  },
  'qwen3, head norms': { architecture: 'qwen3', type: 'F16', headDim: 32 },
  'gemma3, norms that are added, a window': { architecture: 'gemma3', type: 'Q8_0', headDim: 32, window: 20 },
  'phi3, one matrix of q, k and v': {
    architecture: 'phi3',
    type: 'Q8_0',
    headDim: 32,
    rotary: 24,
    window: 40,
  },
  'smollm3, a layer without positions': { architecture: 'smollm3', type: 'Q8_0', headDim: 32, layers: 4 },
  'granite, scales': { architecture: 'granite', type: 'Q8_0', headDim: 32 },
  'qwen3moe, experts': { architecture: 'qwen3moe', type: 'Q8_0', headDim: 32 },
  'gpt-oss, sinks and experts with biases': {
    architecture: 'gpt-oss',
    type: 'Q8_0',
    headDim: 32,
    window: 40,
  },
  'lfm2, convolutions': { architecture: 'lfm2', type: 'Q8_0', headDim: 32 },
  'qwen3.5, the delta rule, a gate of attention': {
    architecture: 'qwen35',
    type: 'Q8_0',
    headDim: 32,
    rotary: 16,
  },
  'gemma4, layers without keys, inputs by layer': tinyGemma4({ type: 'Q8_0' }),
  'llama, f32, one head of keys': { architecture: 'llama', kvHeads: 1, type: 'F32' },
};
const rounds = 12;
const tolerableKl = 1e-5;

let wgsl: WgslSources;
let unfused: ReadonlyMap<string, LabKernel>;
beforeAll(async () => {
  wgsl = await testPlatform().wgsl();
  unfused = unfusedKernels(wgsl);
});

/** Logits after a prompt, in a step with other sequences, and of tokens decoded alone. */
async function logitsOf(engine: ResidentEngine): Promise<Float32Array[]> {
  return await engine.exclusive(async (runner) => {
    const { capacity } = runner.memory;
    const prompt = Array.from({ length: 45 }, (_, i) => (i * 53 + 7) % 250);
    runner.setPages(0, [3, 0]);
    runner.setPages(1, [2, 1]);
    const step = runner.newStep();
    const rows: Float32Array[] = [];
    step.clear();
    step.sample(step.prefillTokens(prompt, 0, prompt.length, 0), 0, prompt.length, greedySampling);
    rows.push(...(await runner.logits(step)));
    expect(capacity.slots).toBeGreaterThan(1);
    // A prompt of a second sequence together with a token of the first.
    step.clear();
    step.sample(step.decodeToken(17, 45, 0), 0, 46, greedySampling);
    step.sample(step.prefillTokens(prompt, 0, 9, 1), 1, 9, greedySampling);
    rows.push(...(await runner.logits(step)));
    for (const position of [46, 47]) {
      step.clear();
      step.sample(step.decodeToken(position, position, 0), 0, position + 1, greedySampling);
      rows.push(...(await runner.logits(step)));
    }
    return rows;
  });
}

/** Weight format of each target: undefined if no kernel of a single format can run it. */
type Formats = ReadonlyMap<string, string | undefined>;

async function formatsByTarget(engine: ResidentEngine): Promise<Formats> {
  const live = new LiveTargets(engine.runner, wgsl, unfused);
  const formats = new Map<string, string | undefined>();
  for (const op of new Set(live.targets.map((target) => target.op))) {
    for (const [id, labs] of await live.dispatches(op)) {
      const [format, ...others] = new Set(labs.map((lab) => lab.format));
      if (others.length === 0) formats.set(id, format);
    }
  }
  return formats;
}

/** A random set of multi-token and single-token bindings; only bindings of different kinds overlap. */
function draw(engine: ResidentEngine, random: Random, formats: Formats): Binding[] {
  const targets = targetsOf(engine.graph).filter(({ id }) => formats.has(id));
  const bindings: Binding[] = [];
  for (const index of random
    .permutation(targets.length)
    .subarray(0, 1 + random.integerBelow(targets.length))) {
    const target = targets[index] as Target;
    const sibling = oneTokenSibling(target.op);
    const op = sibling !== undefined && random.integerBelow(2) === 1 ? sibling : target.op;
    const one: Binding = { target: target.id, kernel: stubKernel(wgsl, op, formats.get(target.id)) };
    const rivals = bindings.filter(({ kernel }) => kernel.contract.tokens === one.kernel.contract.tokens);
    if (overlappingBindings(engine.graph, rivals, [one]).length === 0) bindings.push(one);
  }
  return bindings;
}

for (const [name, model] of everyNth(Object.entries(models), 5)) {
  describe(name, () => {
    let engine: ResidentEngine;
    beforeAll(async () => {
      const options = { parallel: 4, exact: true };
      engine =
        typeof model === 'string'
          ? await loadEngine(testPlatform(), { model, ...options })
          : await loadFromMemory(model instanceof Uint8Array ? model : tinyModel(model), options);
    });
    afterAll(() => engine.close());

    it('has a graph in which every result except the sampled token is read', async () => {
      const live = new LiveTargets(engine.runner, wgsl, unfused);
      const { nodes, edges } = await describeGraph(name, engine.runner, live, new Map());
      for (const { id, flops, bytes } of nodes) {
        expect(bytes, id).toBeGreaterThan(0);
        expect(Number.isFinite(flops), id).toBe(true);
      }
      const read = new Set(edges.map(({ from }) => from));
      expect(nodes.filter(({ id }) => !read.has(id)).map(({ id }) => id)).toEqual(['sample']);
      const fed = new Set(edges.map(({ to }) => to));
      expect(nodes.filter(({ id }) => !fed.has(id)).map(({ id }) => id)).toEqual(['embed']);
      expect(nodes.filter(({ kernel }) => kernel === 'builtin')).toEqual([]);
    });

    it('gives the same logits with any combination of bindings', async () => {
      const formats = await formatsByTarget(engine);
      const expected = await logitsOf(engine);
      const random = new Random(Math.floor(Math.random() * 2 ** 32), name);
      const seen = new Set<string>();
      // The test needs logits that differ clearly.
      expect(klDivergence(expected[0] as Float32Array, expected[1] as Float32Array)).toBeGreaterThan(0.01);
      for (let n = 0; n < rounds; n++) {
        const bindings = draw(engine, random, formats);
        await engine.bind(bindings, unfused);
        const got = await logitsOf(engine);
        const text = bindings.map(({ target, kernel }) => `${target}: ${kernel.name}`).join(', ');
        for (const [row, logits] of expected.entries()) {
          expect(klDivergence(logits, got[row] as Float32Array), `row ${row} of ${text}`).toBeLessThan(
            tolerableKl,
          );
        }
        for (const { kernel } of bindings) seen.add(kernel.contract.op);
        if (n % 4 === 3) await engine.bind([], unfused);
      }
      expect(seen.size).toBeGreaterThan(10);
    });

    it('binds gate and up together only if they are contiguous', async () => {
      const live = new LiveTargets(engine.runner, wgsl, unfused);
      const inPieces = typeof model === 'object' && 'type' in model && typeof model.type === 'object';
      // Models with experts have no such unit.
      const isThere = engine.runner.graph.units.some(({ id }) => id === 'layers.0.ffn.gate_up');
      for (const [op, id] of [
        ['gated_matmul', 'layers.0.ffn.gate_up_act'],
        ['norm_gated_matmul', 'layers.0.ffn.norm_gate_up_act'],
      ] as const) {
        expect((await live.dispatches(op)).has(id)).toBe(isThere && !inPieces);
      }
    });
  });
}
