import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import type { Variant } from '../../../kernels/assemble.ts';
import { eraseVariant, type Kernel } from '../../../kernels/define.ts';
import {
  expertFlags,
  expertMatmul,
  expertMatvec,
  type ExpertParams,
  expertSum,
  expertTile,
  type ExpertVariant,
} from '../../../kernels/experts.ts';
import { weightFormats } from '../../../kernels/formats.ts';
import { maxExperts, maxUsed, route, routeGroups, maxTileCount } from '../../../kernels/route.ts';
import {
  dequantizeRows,
  expertActivation,
  expertMatmul as reference,
  expertSum as referenceSum,
  route as referenceRoute,
  type WeightType,
} from '../../../kernels/reference/index.ts';
import type { Values } from '../../../kernels/reference/vectors.ts';
import { repack } from '../../../src/engine/loading/repack.ts';
import {
  expectClose,
  expectUntouched,
  type KernelHarness,
  kernelHarness,
  poisoned,
  random,
  randomValues,
  variantName,
} from '../../support/kernel-harness.ts';
import {
  everyNth,
  isSampleFormat,
  rounds,
  runsRest,
  selectCases,
  selectVariants,
  tier,
} from '../../support/tier.ts';
import { sampleRows, wholeColumns } from '../../support/random-blocks.ts';

let harness: KernelHarness;
beforeAll(async () => {
  harness = await kernelHarness();
});

const routeVariant = { WG: 64, MOST: maxExperts, MOST_USED: maxUsed };

interface Routing {
  readonly tokens: number;
  readonly experts: number;
  readonly used: number;
}

/** Experts and shares as written by the GPU, with poison after them. */
async function routed(
  logits: Float32Array<ArrayBuffer>,
  { tokens, experts, used }: Routing,
  { ofAll = false, scale = 1 } = {},
): Promise<{ chosen: Uint32Array; shares: Float32Array }> {
  const before = poisoned(2 * tokens * used + 8);
  const { routes } = await harness.run(
    route,
    routeVariant,
    {
      params: { experts, used, of_all: ofAll ? 1 : 0, scale },
      dims: { tokens },
      buffers: { logits, routes: before },
    },
    ['routes'],
  );
  const words = new Uint32Array(routes as ArrayBuffer);
  expectUntouched(words.buffer, before, (word) => word < 2 * tokens * used, 'behind the pairs');
  const floats = new Float32Array(words.buffer);
  const pairs = Array.from({ length: tokens * used }, (_, pair) => 2 * pair);
  return {
    chosen: Uint32Array.from(pairs, (at) => words[at] as number),
    shares: Float32Array.from(pairs, (at) => floats[at + 1] as number),
  };
}

const sizes = fc
  .record({
    tokens: fc.integer({ min: 1, max: 40 }),
    experts: fc.integer({ min: 1, max: 160 }),
    wanted: fc.integer({ min: 1, max: maxUsed }),
    seed: fc.nat(1e6),
  })
  .map(({ wanted, ...one }) => ({ ...one, used: Math.min(wanted, one.experts) }));

describe('route.wgsl', () => {
  it('selects experts and computes shares like the oracle, for any sizes', async () => {
    const settings = fc.record({ ofAll: fc.boolean(), scale: fc.constantFrom(1, 2.5) });
    await fc.assert(
      fc.asyncProperty(sizes, settings, async (shape, how) => {
        const { tokens, experts } = shape;
        const logits = randomValues(tokens * experts, random(shape.seed), 4);
        const got = await routed(logits, shape, how);
        const expected = referenceRoute(logits, shape, how);
        expect(got.chosen).toEqual(expected.selected);
        expectClose(got.shares, expected.shares, { nmse: 1e-11, maxAbs: 1e-5 }, JSON.stringify(shape));
      }),
      { numRuns: 60 },
    );
  });

  it('supports the maximum number of experts', async () => {
    const shape = { tokens: 3, experts: maxExperts, used: maxUsed };
    const logits = randomValues(3 * maxExperts, random(5), 3);
    expect((await routed(logits, shape)).chosen).toEqual(referenceRoute(logits, shape).selected);
  });

  it('selects the first of equal logits; both zeros are equal', async () => {
    const shape = { tokens: 2, experts: 6, used: 3 };
    const logits = Float32Array.from([1, 2, 2, 1, 2, 2, -0, -1, 0, -0, -3, 0]);
    expect([...(await routed(logits, shape)).chosen]).toEqual([1, 2, 4, 0, 2, 3]);
  });

  it('orders NaN last, and infinities correctly', async () => {
    const { NaN: none, POSITIVE_INFINITY: positiveInfinity, NEGATIVE_INFINITY: negativeInfinity } = Number;
    const rows = [
      [none, 1, none, -5],
      [none, none, none, none],
      [negativeInfinity, none, 3, positiveInfinity],
    ];
    const shape = { tokens: rows.length, experts: 4, used: 3 };
    const { chosen } = await routed(Float32Array.from(rows.flat()), shape);
    expect([...chosen]).toEqual([1, 3, 0, 0, 1, 2, 3, 2, 0]);
  });

  it.each([false, true])(
    'gives NaN shares when an expert has a NaN logit, selected or not; of all: %s',
    async (ofAll) => {
      const shape = { tokens: 2, experts: 4, used: 2 };
      const logits = Float32Array.of(1, 2, Number.NaN, 3, 1, 2, 0, 3);
      const { shares } = await routed(logits, shape, { ofAll });
      expect([...shares].map(Number.isNaN)).toEqual([true, true, false, false]);
      expect([...referenceRoute(logits, shape, { ofAll }).shares].map(Number.isNaN)).toEqual([
        true,
        true,
        false,
        false,
      ]);
    },
  );

  it('gives a token the same experts and shares with any other tokens', async () => {
    const shape = { tokens: 9, experts: 33, used: 5 };
    const logits = randomValues(9 * 33, random(11), 3);
    const together = await routed(logits, shape);
    for (const t of [0, 4, 8]) {
      const alone = await routed(logits.slice(t * 33, (t + 1) * 33), { ...shape, tokens: 1 });
      expect(alone.chosen).toEqual(together.chosen.slice(t * 5, (t + 1) * 5));
      expect(alone.shares).toEqual(together.shares.slice(t * 5, (t + 1) * 5));
    }
  });
});

/** Words of a buffer of routes: pairs, then their order, then the tiles. */
function routesOf(chosen: Uint32Array, { experts }: Pick<Routing, 'experts'>, tile: number) {
  const pairs = chosen.length;
  const orderAt = 2 * pairs;
  const tilesAt = Math.ceil((orderAt + pairs) / 4) * 4;
  const tiles = maxTileCount(pairs, experts, tile);
  const routes = new Uint32Array(tilesAt + 4 * tiles + 8).fill(0x7fc0dead);
  for (const [pair, expert] of chosen.entries()) routes[2 * pair] = expert;
  return { routes, orderAt, tilesAt, tiles };
}

async function grouped(chosen: Uint32Array, shape: Routing, tile: number) {
  const made = routesOf(chosen, shape, tile);
  const { routes } = await harness.run(
    routeGroups,
    { WG: 64, TILE: tile },
    {
      params: {
        experts: shape.experts,
        used: shape.used,
        max_direct_tokens: 0,
        order_at: made.orderAt,
        tiles_at: made.tilesAt,
        range: 0,
      },
      dims: { tokens: shape.tokens },
      buffers: { routes: made.routes },
    },
    ['routes'],
  );
  return { ...made, routes: new Uint32Array(routes as ArrayBuffer), before: made.routes };
}

describe('route_groups.wgsl', () => {
  it('has each pair once, in tiles of its expert, in order', async () => {
    const tile = fc.constantFrom(4, 8, 32);
    await fc.assert(
      fc.asyncProperty(sizes, tile, fc.boolean(), async (shape, size, skewed) => {
        const next = random(shape.seed);
        const logits = randomValues(shape.tokens * shape.experts, next, 1);
        // Tokens that agree fill whole tiles.
        if (skewed) for (let i = 0; i < logits.length; i++) logits[i]! += 2 * (i % shape.experts);
        const { selected: chosen } = referenceRoute(logits, shape);
        const { routes, orderAt, tilesAt, tiles, before } = await grouped(chosen, shape, size);
        const order = routes.subarray(orderAt, orderAt + chosen.length);
        const expected = [...chosen.keys()].sort(
          (a, b) => (chosen[a] as number) - (chosen[b] as number) || a - b,
        );
        expect([...order]).toEqual(expected);
        const covered: number[] = [];
        for (let n = 0; n < tiles; n++) {
          const [expert, first, count] = routes.subarray(tilesAt + 4 * n) as unknown as [
            number,
            number,
            number,
          ];
          expect(count).toBeLessThanOrEqual(size);
          for (let i = first; i < first + count; i++) {
            covered.push(i);
            expect(chosen[order[i] as number]).toBe(expert);
          }
        }
        expect(covered).toEqual([...chosen.keys()]);
        const written = (word: number) =>
          (word >= orderAt && word < orderAt + chosen.length) ||
          (word >= tilesAt && word < tilesAt + 4 * tiles);
        expectUntouched(routes.buffer, before, written, 'groups');
      }),
      { numRuns: 60 },
    );
  });
});

const typeOf = new Map<string, WeightType>(
  Object.entries(weightFormats).map(([type, format]) => [format.name, type as WeightType]),
);

interface Case extends Routing {
  readonly rows: number;
  readonly columns: number;
  readonly bias?: boolean;
  readonly paired?: boolean;
  readonly gated?: 'silu' | 'swiglu_oai';
  /** Experts that these weights hold; all of them by default. */
  readonly held?: { readonly first: number; readonly count: number };
  /** The first gate is NaN, and an input of the last token. */
  readonly damaged?: boolean;
}

/** The output of a variant for a case: its pairs and counters, and the oracle's. */
async function runCase(
  kernel: Kernel<Variant, ExpertParams>,
  variant: ExpertVariant,
  shape: Case,
  seed: number,
) {
  const { tokens, experts, used, rows, bias = false, paired = false, gated, damaged = false } = shape;
  const { first, count } = shape.held ?? { first: 0, count: experts };
  const type = typeOf.get(variant.FORMAT) as WeightType;
  const columns = wholeColumns(type, shape.columns);
  const next = random(seed);
  const { selected: chosen } = referenceRoute(randomValues(tokens * experts, next), shape);
  const pairs = chosen.length;
  const raw = sampleRows(type, { rows: count * rows, columns }, next);
  const held = dequantizeRows(type, raw, { rows: count * rows, columns });
  const { quants, scales = new Uint32Array(4) } = repack(type, raw, count * rows, columns);
  const x = randomValues((paired ? pairs : tokens) * columns, next);
  const biases = randomValues(experts * rows, next);
  const gate = randomValues(pairs * rows, next, 6);
  if (damaged) {
    gate[0] = Number.NaN;
    x[x.length - 1] = Number.NaN;
  }
  const y = poisoned(pairs * rows + 16);
  const made = variant.DIRECT ? routesOf(chosen, shape, 4) : await grouped(chosen, shape, variant.COLS);
  const out = await harness.run(
    kernel,
    variant,
    {
      params: {
        rows,
        blocks: columns / 32,
        first_expert: first,
        experts: count,
        used,
        flags:
          (bias ? expertFlags.bias : 0) |
          (paired ? expertFlags.paired : 0) |
          (gated ? expertFlags.gated : 0) |
          (gated === 'swiglu_oai' ? expertFlags.oai : 0),
        order_at: made.orderAt,
        tiles_at: made.tilesAt,
        computed_at: 1,
        loop_limit: 1024,
        all_experts: experts,
        prompt_tiles_at: made.tilesAt,
      },
      dims: { tokens },
      buffers: {
        quants,
        scales,
        vectors: biases,
        x,
        y,
        routes: made.routes,
        gate,
        computed: new Uint32Array(experts + 2),
      },
    },
    ['y', 'computed'],
  );
  // Experts that these weights do not hold are zeros and are not read.
  const weight = new Float64Array(experts * rows * columns);
  weight.set(held, first * rows * columns);
  const product = reference(x, weight, chosen, {
    inputs: columns,
    outputs: rows,
    used,
    paired,
    bias: bias ? biases : undefined,
  });
  const isHere = (pair: number) => {
    const expert = chosen[pair] as number;
    return expert >= first && expert < first + count;
  };
  const got = new Float32Array(out['y'] as ArrayBuffer);
  const isWritten = (word: number) => word < pairs * rows && isHere(Math.floor(word / rows));
  expectUntouched(out['y'] as ArrayBuffer, y, isWritten, 'pairs of other weights');
  const lastPairs = paired ? 1 : used;
  const isDamaged = (word: number) => damaged && (word === 0 || word >= (pairs - lastPairs) * rows);
  const lost = [...got.keys()].filter(
    (word) => isWritten(word) && isDamaged(word) && !Number.isNaN(got[word]),
  );
  expect(lost, `${variantName(variant)}: words that should be NaN`).toEqual([]);
  const inside = (word: number) => isWritten(word) && !isDamaged(word);
  const expected = gated ? product.map((up, i) => expertActivation(gate[i] as number, up, gated)) : product;
  const compared = expected.filter((_, word) => inside(word));
  // A gated result is a product of two sums, some hundreds large.
  const plain = { nmse: 1e-10, maxAbs: 1e-3 };
  const tolerance = gated ? { nmse: plain.nmse * 2, maxAbs: plain.maxAbs * 20 } : plain;
  // One row and one token have a single sum, whose terms may cancel; those of many sums do not cancel all at once.
  const squared = (values: Values) => Float64Array.from(values, (value) => value ** 2);
  const terms = reference(squared(x), squared(weight), chosen, {
    inputs: columns,
    outputs: rows,
    used,
    paired,
  });
  const slopeOf = (value: number) =>
    gated ? expertActivation(value, 1, gated) - expertActivation(value, 0, gated) : 1;
  const minPower = terms.reduce(
    (sum, term, word) => (inside(word) ? sum + term * slopeOf(gate[word] as number) ** 2 : sum),
    0,
  );
  expectClose(
    got.filter((_, word) => inside(word)),
    compared,
    compared.length < 32 ? { ...tolerance, minPower } : tolerance,
    `${variantName(variant)} ${JSON.stringify(shape)}`,
  );
  const counts = Array.from(
    { length: experts },
    (_, e) => [...chosen.keys()].filter((pair) => chosen[pair] === e && isHere(pair)).length,
  );
  expect([...new Uint32Array(out['computed'] as ArrayBuffer)].slice(0, experts + 2)).toEqual([
    0,
    ...counts,
    0,
  ]);
  return got.subarray(0, pairs * rows);
}

const cases: readonly Case[] = [
  { tokens: 1, experts: 5, used: 2, rows: 57, columns: 992 },
  { tokens: 11, experts: 4, used: 3, rows: 70, columns: 64, bias: true, gated: 'swiglu_oai' },
  { tokens: 40, experts: 3, used: 2, rows: 33, columns: 96, paired: true, bias: true },
  { tokens: 9, experts: 9, used: 4, rows: 64, columns: 64, gated: 'silu' },
  { tokens: 13, experts: 8, used: 2, rows: 40, columns: 32, held: { first: 3, count: 4 }, bias: true },
];

/** Formats that are run on all cases. The others only differ in how a block is read. */
const thorough = ['f32', 'q8_0', 'q4_0', 'q6_k'];

for (const kernel of [eraseVariant(expertMatmul), eraseVariant(expertMatvec), eraseVariant(expertTile)]) {
  describe(`${kernel.source} equals the oracle`, () => {
    const variants = kernel.variants as readonly ExpertVariant[];
    for (const variant of selectVariants(variants, ({ FORMAT }) => isSampleFormat(FORMAT))) {
      it(variantName(variant), async () => {
        const some = thorough.includes(variant.FORMAT) ? cases : cases.slice(0, 2);
        for (const [index, shape] of some.entries()) await runCase(kernel, variant, shape, index + 1);
      });
    }
  });
}

describe('products with experts keep NaN', () => {
  for (const kernel of [eraseVariant(expertMatmul), eraseVariant(expertMatvec), eraseVariant(expertTile)]) {
    it.each(everyNth(['silu', 'swiglu_oai'] as const, 2))(`${kernel.source}, %s`, async (gated) => {
      const all = (kernel.variants as readonly ExpertVariant[]).filter((one) => one.FORMAT === 'q8_0');
      const variants = selectVariants(all, () => true, runsRest ? 'all' : tier);
      const shape = { tokens: 11, experts: 4, used: 3, rows: 70, columns: 64, gated, damaged: true };
      for (const variant of variants) await runCase(kernel, variant, shape, 4);
    });
  }
});

describe('products with experts, for any sizes', () => {
  for (const kernel of [eraseVariant(expertMatmul), eraseVariant(expertMatvec), eraseVariant(expertTile)]) {
    it(kernel.source, async () => {
      const variants = (kernel.variants as readonly ExpertVariant[]).filter((one) => one.FORMAT === 'q8_0');
      const shapes = fc.record({
        rows: fc.integer({ min: 1, max: 150 }),
        blocks: fc.integer({ min: 1, max: 5 }),
        bias: fc.boolean(),
        paired: fc.boolean(),
        gated: fc.constantFrom(undefined, 'silu', 'swiglu_oai'),
        held: fc.tuple(fc.double({ min: 0, max: 1, noNaN: true }), fc.boolean()),
      });
      await fc.assert(
        fc.asyncProperty(
          sizes,
          shapes,
          fc.constantFrom(...variants),
          async (routing, { blocks, held: [part, isPart], gated, ...shape }, variant) => {
            const experts = Math.min(routing.experts, 24);
            const cut = Math.min(experts - 1, Math.floor(part * experts));
            await runCase(
              kernel,
              variant,
              {
                ...routing,
                experts,
                used: Math.min(routing.used, experts),
                ...shape,
                columns: blocks * 32,
                ...(gated ? { gated } : {}),
                ...(isPart ? { held: { first: cut, count: experts - cut } } : {}),
              },
              routing.seed,
            );
          },
        ),
        { numRuns: rounds(25, 8) },
      );
    });
  }

  it.each([eraseVariant(expertMatmul), eraseVariant(expertMatvec)])(
    'a pair has the same bits in any tile: $source',
    async (kernel) => {
      for (const FORMAT of selectCases(thorough, (name) => name === 'q8_0')) {
        const variants = (kernel.variants as readonly ExpertVariant[]).filter(
          (one) => one.FORMAT === FORMAT && one['SUBGROUPS'] === true,
        );
        expect(variants.length).toBeGreaterThan(2);
        const shape = { tokens: 21, experts: 6, used: 3, rows: 48, columns: 256 };
        for (const ofLanes of Map.groupBy(variants, ({ LANES }) => LANES).values()) {
          const results: Float32Array[] = [];
          for (const variant of ofLanes) results.push(await runCase(kernel, variant, shape, 3));
          for (const result of results) expect(result).toEqual(results[0]);
        }
      }
    },
  );
});

describe('expert_sum.wgsl', () => {
  it.each([
    { tokens: 1, width: 32, used: 1 },
    { tokens: 7, width: 288, used: 4 },
    { tokens: 3, width: 1024, used: 16 },
  ])('equals the oracle: %o', async ({ tokens, width, used }) => {
    const next = random(width);
    const x = randomValues(tokens * used * width, next);
    const hidden = randomValues((tokens + 1) * width, next);
    const shares = Float32Array.from({ length: tokens * used }, next);
    const routes = new Float32Array(2 * shares.length);
    for (const [pair, share] of shares.entries()) routes[2 * pair + 1] = share;
    const out = await harness.run(
      expertSum,
      { WG: 64 },
      { params: { quads: width / 4, used }, dims: { tokens }, buffers: { x, routes, hidden } },
      ['hidden'],
    );
    const got = new Float32Array(out['hidden'] as ArrayBuffer);
    const before = hidden.slice(0, tokens * width);
    expectClose(
      got.subarray(0, tokens * width),
      referenceSum(before, x, shares, used),
      { nmse: 1e-12, maxAbs: 1e-5 },
      'sum',
    );
    expectUntouched(got.buffer, hidden, (word) => word < tokens * width, 'expert_sum');
  });
});
