/** The tuner with scripted times: which kernels, tiles and splits it chooses on adapters that are not here. */
import { beforeAll, describe, expect, it } from 'vitest';
import { variantKey } from '../../kernels/assemble.ts';
import { choicesOf } from '../../src/engine/execution/choice-measurements.ts';
import { contextClasses, fastestTiling } from '../../src/engine/execution/attention-tiling.ts';
import type { KernelBench } from '../../src/engine/execution/measure-candidates.ts';
import { fuseUnits, makePlan, vectorsOf } from '../../src/engine/execution/plan.ts';
import type { PlanContext } from '../../src/engine/execution/plan-context.ts';
import { familyOf, isMeasured, tune } from '../../src/engine/execution/tuner.ts';
import { StepInput } from '../../src/engine/execution/step.ts';
import { Tuning } from '../../src/engine/execution/tuning.ts';
import type { PipelineCache } from '../../src/engine/gpu/pipelines.ts';
import { seededRandom } from '../../src/util/random.ts';
import { listedModels, otherModels, type PlannedModel } from '../support/planned-models.ts';
import { type AdapterTraits, placedOn, vendorAdapters } from '../support/planned-pipelines.ts';

/** One dispatch that is timed, and the step that it runs in. */
interface Run {
  /** Source and variant. */
  readonly kernel: string;
  readonly workgroups: number;
  readonly tokens: number;
  /** Position of the first tile, and the length of its parts. */
  readonly position: number;
  readonly splitTokens: number;
}

interface Script {
  /** Time of a dispatch in ms. */
  ms(run: Run): number;
  /** Whether a dispatch writes something else than the others. */
  readonly isWrong?: (run: Run) => boolean;
  readonly isRejected?: (kernel: string) => boolean;
}

const adapterNamed = (name: string) => vendorAdapters.find((one) => one.name === name) as AdapterTraits;

/** Measures a model with scripted times; products take the same time in all kernels. */
async function measured(model: PlannedModel, traits: AdapterTraits, script: Script, tuning = new Tuning()) {
  const placed = await placedOn(model, traits);
  const { gpu, graph, memory, stacks } = placed;
  let words = new Uint32Array();
  let timed = 0;
  Object.assign(gpu.device.queue, {
    writeBuffer(buffer: GPUBuffer, _: number, data: Uint32Array<ArrayBuffer>) {
      if (buffer === memory.step) words = data.slice();
    },
  });
  const pipelines = {
    get: async ({ source }: { source: string }, variant: Record<string, number>) => {
      const kernel = variantKey(source, variant);
      if (script.isRejected?.(kernel)) throw new Error('rejected');
      return { pipeline: kernel, layout: {} };
    },
  } as unknown as PipelineCache;
  let last: Run[] = [];
  const bench: KernelBench = {
    async time(encode) {
      timed += 1;
      last = [];
      let kernel = '';
      encode({
        setPipeline: (pipeline: unknown) => (kernel = String(pipeline)),
        setBindGroup() {},
        dispatchWorkgroups(x: number, y: number, z: number) {
          const { layout } = memory;
          const area = words[2] ? layout.splitTiles : layout.singleTiles;
          const splitTokens = (words[area / 4 + 1] as number) >>> 16;
          const position = words[area / 4 + 3] as number;
          last.push({ kernel, workgroups: x * y * z, tokens: words[0] as number, position, splitTokens });
        },
      } as unknown as GPUComputePassEncoder);
      return last.reduce((sum, run) => sum + script.ms(run), 0);
    },
    read: async (_, count) => new Float32Array(count).fill(last.some((run) => script.isWrong?.(run)) ? 2 : 1),
    destroy() {},
  };
  const planChoices = async (by: Tuning): Promise<PlanContext> => {
    const family = familyOf({ gpu }, stacks, by);
    const fusedOps = fuseUnits({ gpu, tuning: by }, graph, family, stacks);
    const vectors = new Map([...vectorsOf(fusedOps).keys()].map((key) => [key, memory.dummyRead]));
    return {
      ...placed,
      pipelines,
      weights: { stacks, vectors, streamed: placed.streamed },
      fusedOps,
      family,
      tuning: by,
      tiling: fastestTiling(gpu, graph.shape, memory, by),
    };
  };
  const context = { gpu, pipelines, memory };
  const options = { budgetMs: Number.POSITIVE_INFINITY, now: () => 0, onMeasured() {}, planChoices, bench };
  const outcome = await tune(context, graph, stacks, tuning, options);
  const plan = await planChoices(tuning);
  const { dispatches } = await makePlan(plan);
  const kernelsOf = (op: string, id = /$/) => [
    ...new Set(
      dispatches.filter((one) => one.op === op && id.test(one.id)).map(({ choices }) => choices[0]?.kernel),
    ),
  ];
  return {
    outcome,
    tuning,
    timed,
    tiling: plan.tiling,
    memory,
    kernelsOf,
    isComplete: () => isMeasured(context, graph, stacks, tuning, planChoices),
    choices: () => choicesOf(plan),
  };
}

const has = (text: string, ...parts: string[]) => parts.every((part) => text.includes(part));
const isDecode = ({ kernel }: Run) => has(kernel, 'decode');

let qwen: PlannedModel;
let gemma: PlannedModel;
let smollm: PlannedModel;
beforeAll(async () => {
  const others = await otherModels();
  qwen = others.find(({ name }) => name === 'Qwen3 8B') as PlannedModel;
  gemma = others.find(({ name }) => name === 'Gemma 3 4B') as PlannedModel;
  smollm = (await listedModels()).find(({ name }) => name === 'SmolLM2 135M') as PlannedModel;
});
const nvidia = adapterNamed('NVIDIA');

/** Attention takes as long as its longest part, in rounds of 128 workgroups, and each part has to be combined. */
const gpuMs = ({ kernel, workgroups, position, splitTokens }: Run): number => {
  if (has(kernel, 'combine')) return 0.02 + 0.0005 * (position / splitTokens);
  if (!has(kernel, 'decode')) return 1;
  return (Math.ceil(workgroups / 128) * (splitTokens || position)) / 10_000;
};

describe('with scripted times', () => {
  it('the fastest is taken for every class of contexts, shape and step', async () => {
    const ms = (run: Run): number => {
      if (has(run.kernel, 'prefill')) return has(run.kernel, 'TILE=8') ? 0.5 : 1;
      // Heads are short rows, the hidden state is a long one.
      if (has(run.kernel, 'rms_norm', 'IN_PLACE=true')) return has(run.kernel, 'SUBGROUPS=true') ? 0.5 : 1;
      if (has(run.kernel, 'rms_norm')) return has(run.kernel, 'WG=256') ? 0.5 : 1;
      if (has(run.kernel, 'sample_pick')) return has(run.kernel, 'WG=128') ? 0.5 : 1;
      if (has(run.kernel, 'logprobs')) return has(run.kernel, 'WG=64') ? 0.5 : 1;
      return gpuMs(run);
    };
    const { outcome, tiling, kernelsOf, memory } = await measured(qwen, nvidia, { ms });
    expect(outcome.complete).toBe(true);
    expect(outcome.measured).toBeGreaterThan(30);
    expect(contextClasses(memory)).toEqual([512, 2048, 8192]);
    // The longer the context, the longer its parts.
    expect(tiling).toEqual({
      tileTokens: 8,
      splits: [
        { from: 512, tokens: 64 },
        { from: 2048, tokens: 256 },
        { from: 8192, tokens: 1024 },
      ],
    });
    expect(kernelsOf('attention_prefill').join()).toContain(
      'GROUP=1&HEAD_DIM=128&LANES=32&PAGE=32&SINKS=false&SUBGROUPS=true&TILE=8',
    );
    expect(kernelsOf('rms_norm', /output/).join()).toContain('WG=256');
    expect(kernelsOf('rms_norm', /q_norm/).join()).toMatch(/SUBGROUPS=true.*WG=32/);
    expect(kernelsOf('sample_pick')).toEqual(['builtin:sample_pick.wgsl?WG=128']);
    // It cuts the logits as the sample did.
    expect(kernelsOf('sampled_logits')).toEqual(['builtin:sampled_logits.wgsl?WG=128']);
    expect(kernelsOf('logprobs')).toEqual(['builtin:logprobs.wgsl?WG=64']);
  });

  it('short and long contexts may decode with different kernels', async () => {
    const ms = (run: Run): number => {
      if (!isDecode(run)) return gpuMs(run);
      const isRegisters = !has(run.kernel, 'flash');
      const isFast = run.splitTokens > 0 ? has(run.kernel, 'GROUP=1') : isRegisters;
      return gpuMs(run) * (isFast ? 0.1 : 1);
    };
    const { kernelsOf } = await measured(qwen, nvidia, { ms });
    const [whole, split] = [/attn(?!.*split)/, /split/].map((id) =>
      String(kernelsOf('attention_decode', id)),
    );
    expect(whole).toContain('builtin:attention_decode.wgsl');
    expect(split).toContain('builtin:attention_flash_decode.wgsl?GROUP=1');
    // Drafts run on the pipeline of the tokens that they stand for.
    expect(kernelsOf('attention_decode', /again/)).toHaveLength(2);
  });

  it('contexts are split from the class on after which it always pays, and never before the first', async () => {
    const whole = (from: number) => (run: Run) =>
      isDecode(run) && run.splitTokens > 0 && run.position < from ? 9 : gpuMs(run);
    expect(
      (await measured(qwen, nvidia, { ms: whole(2048) })).tiling?.splits.map(({ from }) => from),
    ).toEqual([2048, 8192]);
    const never = await measured(qwen, nvidia, { ms: whole(1e9) });
    expect(never.tiling?.splits).toEqual([]);
    expect(never.kernelsOf('attention_combine')).toEqual([]);
    // Short contexts pay, long ones do not: none is split.
    const short = (run: Run) =>
      isDecode(run) && run.splitTokens > 0 && run.position > 8192 ? 9 : gpuMs(run);
    expect((await measured(qwen, nvidia, { ms: short })).tiling?.splits).toEqual([]);
  });

  it('one tile and one way of splitting serve layers with other heads and with windows', async () => {
    const ms = (run: Run) => (has(run.kernel, 'prefill', 'TILE=8') ? 0.5 : gpuMs(run));
    const { tiling, kernelsOf } = await measured(gemma, nvidia, { ms });
    expect(tiling?.tileTokens).toBe(8);
    const kernels = kernelsOf('attention_prefill').map(String);
    expect(kernels).toHaveLength(2);
    for (const kernel of kernels) expect(kernel).toContain('TILE=8');
  });

  it.each([1, 2, 3])('noise does not change a choice (seed %i)', async (seed) => {
    const random = seededRandom(seed);
    // Equal kernels, a little noise, and now and then another process.
    const ms = () => 1 + 0.02 * random() + (random() < 0.2 ? 5 * random() : 0);
    const isCombine = ({ kernel }: Run) => has(kernel, 'combine');
    const quiet = await measured(qwen, nvidia, { ms: (run) => (isCombine(run) ? 0 : 1) });
    const noisy = await measured(qwen, nvidia, { ms: (run) => (isCombine(run) ? 0 : ms()) });
    for (const op of ['rms_norm', 'sample_pick', 'logprobs', 'attention_prefill', 'attention_decode'])
      expect(noisy.kernelsOf(op), op).toEqual(quiet.kernelsOf(op));
    expect(noisy.tiling?.tileTokens).toBe(quiet.tiling?.tileTokens);
    expect(noisy.tiling?.splits.map(({ tokens }) => tokens)).toEqual([512, 512, 512]);
  });

  it('a kernel that is rejected or wrong is never chosen, however fast', async () => {
    const isFlash = (kernel: string) => has(kernel, 'flash', 'GROUP=4');
    const ms = (run: Run) =>
      has(run.kernel, 'TILE=8') || has(run.kernel, 'WG=128') || isFlash(run.kernel) ? 0.001 : gpuMs(run);
    const { outcome, tiling, kernelsOf, tuning, isComplete } = await measured(qwen, nvidia, {
      ms,
      isRejected: isFlash,
      isWrong: ({ kernel }) => has(kernel, 'TILE=8') || has(kernel, 'sample_pick', 'WG=128'),
    });
    expect(outcome.complete).toBe(true);
    expect(tiling?.tileTokens).toBe(2);
    expect(kernelsOf('sample_pick')).toEqual(['builtin:sample_pick.wgsl?WG=256']);
    expect(kernelsOf('attention_decode').join()).not.toMatch(/flash_decode.wgsl\?GROUP=4/);
    expect(Object.values(tuning.times).flatMap((one) => Object.values(one))).toContain(1e9);
    expect(await isComplete()).toBe(true);
  });

  it('is measured once', async () => {
    const first = await measured(qwen, nvidia, { ms: gpuMs });
    expect(await first.isComplete()).toBe(true);
    const again = await measured(qwen, nvidia, { ms: () => 1 }, first.tuning);
    expect(again.timed).toBe(0);
    expect(again.tiling).toEqual(first.tiling);
    // Times of other lengths of rows, vocabularies and heads are other times.
    expect((await measured(smollm, nvidia, { ms: gpuMs }, first.tuning)).timed).toBeGreaterThan(0);
  });

  it('kernels that verification excludes are not chosen', async () => {
    const ms = (run: Run) => (has(run.kernel, 'rms_norm', 'SUBGROUPS=true') ? 0.5 : gpuMs(run));
    const { tuning, kernelsOf } = await measured(qwen, nvidia, { ms });
    expect(kernelsOf('rms_norm', /q_norm/).join()).toContain('SUBGROUPS=true');
    const without = tuning.without(['rms_norm.wgsl subgroups']);
    const other = await measured(qwen, nvidia, { ms }, without);
    expect(other.kernelsOf('rms_norm', /q_norm/).join()).toContain('SUBGROUPS=false');
  });
});

describe('on a software adapter', () => {
  const llvmpipe = adapterNamed('llvmpipe, 8 lanes');

  it('only tiles and splits beyond 4,096 tokens are left to measurements', async () => {
    const { choices, memory } = await measured(smollm, llvmpipe, { ms: () => 1 });
    expect(contextClasses(memory)).toEqual([4096]);
    expect((await choices()).map(({ subject }) => subject.split(',')[0])).toEqual(
      expect.arrayContaining(['attention of prompts', 'split attention']),
    );
    expect(new Set((await choices()).map(({ subject }) => subject.split(',')[0])).size).toBe(2);
    // Four heads with two tokens each fill a workgroup, as one head with eight tokens does.
    const full = await measured(qwen, llvmpipe, { ms: () => 1 });
    expect((await full.choices()).map(({ subject }) => subject.split(',')[0])).not.toContain(
      'attention of prompts',
    );
  });

  it('decoded tokens before that are not split, whatever was measured', async () => {
    const fast = (run: Run) => (isDecode(run) && run.splitTokens > 0 ? 0.001 : 1);
    const { tiling, memory } = await measured(smollm, llvmpipe, { ms: fast });
    expect(tiling?.splits).toEqual([{ from: 4096, tokens: 4096 }]);
    const step = new StepInput(memory.layout, {
      tileTokens: 1,
      splitTokens: memory.splitTokens,
      splits: tiling?.splits ?? [],
    });
    step.decodeToken(0, 4095, 0);
    expect(step.dims).toMatchObject({ singleTiles: 1, splitTiles: 0 });
    step.decodeToken(0, 4096, 1);
    expect(step.dims).toMatchObject({ singleTiles: 1, splitTiles: 1, splits: 2 });
  });
});
