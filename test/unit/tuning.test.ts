import { describe, expect, it } from 'vitest';
import type { AdapterCaps } from '../../kernels/define.ts';
import { matmulFamilies, type MatmulFamily } from '../../kernels/matmul.ts';
import { klDivergence } from '../../src/engine/execution/divergence.ts';
import type { Store } from '../../src/engine/platform.ts';
import { loadTimes, saveTimes } from '../../src/engine/execution/tuning-file.ts';
import { optionKey, productKey, Tuning } from '../../src/engine/execution/tuning.ts';

const software: AdapterCaps = { subgroupSize: 8, f16: true, software: true };
const gpu: AdapterCaps = { subgroupSize: 32, f16: true, software: false };
const product = { format: 'q8_0', rows: 3072, blocks: 18 };
const any = Number.POSITIVE_INFINITY;

const familiesOf = (caps: AdapterCaps, int8 = false) =>
  matmulFamilies(caps, int8) as [MatmulFamily, MatmulFamily];

/** Times of a family's options for one class, in order. */
function timed(family: MatmulFamily, upTo: number, ms: readonly number[], tuning: Tuning): void {
  const one = family.classes(product.format).find((each) => each.upTo === upTo);
  one?.options.forEach((option, index) => {
    const its = ms[index];
    if (its !== undefined) tuning.record(family, product, upTo, option, its);
  });
}

const chosen = (tuning: Tuning, family: MatmulFamily, upTo: number) => {
  const one = tuning.choose(family, product).find((each) => each.upTo === upTo);
  return one && optionKey(one);
};

const promptKernel = (tuning: Tuning, family: MatmulFamily) =>
  optionKey(tuning.choose(family, product).find(({ kernel }) => kernel.rows === 'prompt') as never);

describe('the choice of kernels', () => {
  it('is the default when nothing was measured', () => {
    for (const caps of [software, gpu]) {
      const [likely] = familiesOf(caps);
      const tuning = new Tuning();
      expect(tuning.family(familiesOf(caps), [product]).name).toBe(likely.name);
      expect(likely.name).toBe(caps.software ? 'row-a-thread' : 'row-a-subgroup');
      const firsts = likely.classes('q8_0').map(({ options: [first] }) => optionKey(first as never));
      expect(tuning.choose(likely, product).map((one) => optionKey(one))).toEqual(firsts);
    }
  });

  it('does not use f16 for activations that may exceed it, and never with exact', () => {
    const [family] = familiesOf({ ...gpu, matrix: true });
    const tuning = new Tuning();
    const tiles =
      family.classes('q8_0').find(({ options: [first] }) => first?.kernel.rows === 'prompt')?.options ?? [];
    timed(
      family,
      any,
      tiles.map(({ variant }) => (variant['F16'] === true ? 1 : 3)),
      tuning,
    );
    const halves = (unbounded: boolean, by = tuning) =>
      by.choose(family, product, unbounded).map(({ variant }) => variant['F16'] === true);
    expect(halves(false)).toContain(true);
    expect(halves(true)).not.toContain(true);
    const exact = new Tuning(tuning.times, { f16: false });
    expect(halves(false, exact)).not.toContain(true);
    expect(halves(false, exact.withoutInt8())).not.toContain(true);
    expect(halves(false, tuning.withoutInt8())).toContain(true);
  });

  it('takes small tiles of the same kernel for few rows of a prompt', () => {
    const [family] = familiesOf({ ...gpu, matrix: true });
    const tuning = new Tuning();
    const tiles =
      family.classes('q8_0').find(({ options: [first] }) => first?.kernel.rows === 'prompt')?.options ?? [];
    timed(
      family,
      any,
      tiles.map(({ variant }) => (variant['TILE_ROWS'] === 128 ? 1 : 3)),
      tuning,
    );
    const prompts = tuning.choose(family, product).filter(({ kernel }) => kernel.rows === 'prompt');
    expect(prompts.map(({ upTo, variant }) => [upTo, variant['TILE_ROWS'], variant['TILE_TOKENS']])).toEqual([
      [64, 64, 64],
      [any, 128, 128],
    ]);
    expect(new Set(prompts.map(({ kernel }) => kernel.source)).size).toBe(1);
  });

  it('is the faster option, by more than noise', () => {
    const [family] = familiesOf(software);
    const options = family.classes('q8_0').at(-1)?.options ?? [];
    const tuning = new Tuning();
    timed(family, any, [1, 0.98], tuning);
    expect(chosen(tuning, family, any)).toBe(optionKey(options[0] as never));
    timed(family, any, [1, 0.9], tuning);
    expect(chosen(tuning, family, any)).toBe(optionKey(options[1] as never));
    // Another product of the same format keeps the default.
    expect(optionKey(tuning.choose(family, { ...product, rows: 64 }).at(-1) as never)).toBe(
      optionKey(options[0] as never),
    );
  });

  it('uses the other family only when both were measured', () => {
    const [likely, other] = familiesOf(gpu);
    const tuning = new Tuning();
    timed(other, 1, [0.1], tuning);
    expect(tuning.family(familiesOf(gpu), [product]).name).toBe(likely.name);
    timed(likely, 1, [0.2], tuning);
    expect(tuning.family(familiesOf(gpu), [product]).name).toBe(other.name);
    // Products of other models do not count.
    expect(tuning.family(familiesOf(gpu), [{ ...product, rows: 64 }]).name).toBe(likely.name);
    // A faster decode does not count when prompts lose more.
    timed(likely, any, [1], tuning);
    timed(other, any, [9], tuning);
    expect(tuning.family(familiesOf(gpu), [product]).name).toBe(likely.name);
  });

  it('rounds activations only when allowed', () => {
    const [family] = familiesOf(gpu, true);
    const tuning = new Tuning({}, { int8: true });
    timed(family, any, [1, 1, 1, 1, 0.1], tuning);
    expect(promptKernel(tuning, family)).toContain('int8');
    expect(promptKernel(tuning.withoutInt8(), family)).not.toContain('int8');
    // Formats without integers have no such kernel.
    expect(
      family
        .classes('f16')
        .at(-1)
        ?.options.some((option) => option.int8),
    ).toBe(false);
  });

  it('partial sums of squares have the same size in every class of a family', () => {
    for (const caps of [software, gpu]) {
      for (const family of familiesOf(caps)) {
        for (const { options } of family.classes('q4_0')) {
          for (const { kernel, variant } of options) {
            // Tiles: four rows for each thread, in `wgsl/lib/tile_results.wgsl`.
            const rows = kernel.source === 'matmul.wgsl' ? variant['LANES'] : (variant['ROWS'] ?? 4);
            expect(family.rowsPerPartialSum).toBe(rows);
          }
        }
      }
    }
  });
});

describe('measurements are stored', () => {
  const facts = { backend: 'vulkan', vendor: 'mesa', description: 'x', software: true, features: ['f'] };
  const adapter = { facts, caps: software, model: 'a b' };
  const wgsl = new Map([
    ['matmul.wgsl', 'a'],
    ['attention_decode.wgsl', 'b'],
    ['embed.wgsl', 'c'],
  ]);
  const memoryStore = (): Store & { files: Map<string, string> } => {
    const files = new Map<string, string>();
    return {
      files,
      read: async (name) => files.get(name),
      write: async (name, text) => void files.set(name, text),
    };
  };
  const times = { [productKey(product, any)]: { one: 1.5, two: 0.5 } };

  it('only for the same adapter and kernels', async () => {
    const store = memoryStore();
    const { key } = await loadTimes(store, adapter, wgsl);
    await saveTimes(store, key, times);
    expect((await loadTimes(store, adapter, wgsl)).times).toEqual(times);
    expect((await loadTimes(store, adapter, new Map(wgsl).set('embed.wgsl', 'd'))).times).toEqual(times);
    for (const [other, sources] of [
      [{ ...adapter, facts: { ...facts, description: 'y' } }, wgsl],
      [{ ...adapter, facts: { ...facts, features: [] } }, wgsl],
      [{ ...adapter, caps: { ...software, subgroupSize: 4 } }, wgsl],
      [{ ...adapter, model: 'a c' }, wgsl],
      [adapter, new Map(wgsl).set('matmul.wgsl', 'c')],
      [adapter, new Map(wgsl).set('attention_decode.wgsl', 'c')],
      [adapter, new Map(wgsl).set('lib/weight_q8_0.wgsl', 'c')],
    ] as const) {
      expect((await loadTimes(store, other, sources)).times).toEqual({});
    }
  });

  it.each(['', 'null', '[]', '{"a":1}', '{"a":{"b":"c"}}', '{"a":{"b":-1}}', '{"a'])(
    'a damaged file counts as none: %j',
    async (text) => {
      const store = memoryStore();
      const { key } = await loadTimes(store, adapter, wgsl);
      store.files.set(key, text);
      expect((await loadTimes(store, adapter, wgsl)).times).toEqual({});
    },
  );

  it('a store that cannot be read counts as empty', async () => {
    const store: Store = { read: () => Promise.reject(new Error('EACCES')), write: async () => undefined };
    expect((await loadTimes(store, adapter, wgsl)).times).toEqual({});
  });
});

describe('KL divergence of logits', () => {
  it('is 0 for equal logits with any constant added', () => {
    expect(klDivergence([1, 2, 3], [101, 102, 103])).toBeCloseTo(0, 12);
  });

  it('is the sum of p log(p / q)', () => {
    const p = [0.5, 0.25, 0.25];
    const q = [0.1, 0.3, 0.6];
    const expected = p.reduce((sum, value, i) => sum + value * Math.log(value / (q[i] as number)), 0);
    expect(klDivergence(p.map(Math.log), q.map(Math.log))).toBeCloseTo(expected, 12);
  });
});
