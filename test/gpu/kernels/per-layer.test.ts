import { beforeAll, describe, expect, it } from 'vitest';
import { weightFormat, weightFormats } from '../../../kernels/formats.ts';
import { perLayerGate, perLayerJoin, scale, softcap } from '../../../kernels/per-layer.ts';
import {
  dequantizeRows,
  perLayerGate as gateOracle,
  perLayerJoin as joinOracle,
  softcap as softcapOracle,
  type WeightType,
} from '../../../kernels/reference/index.ts';
import { repack } from '../../../src/engine/loading/repack.ts';
import {
  expectClose,
  expectUntouched,
  type KernelHarness,
  kernelHarness,
  random,
  randomValues,
  variantName,
} from '../../support/kernel-harness.ts';
import { isSampleFormat, selectVariants } from '../../support/tier.ts';
import { sampleRows, wholeColumns } from '../../support/random-blocks.ts';

let harness: KernelHarness;
beforeAll(async () => {
  harness = await kernelHarness();
});

const tolerance = { nmse: 1e-12, maxAbs: 3e-5 };

type Join = (typeof perLayerJoin.variants)[number];

const typeOf = (format: string): WeightType => {
  const found = Object.entries(weightFormats).find(([, { name }]) => name === weightFormat(format).name);
  if (!found) throw new Error(`no type has the format ${format}`);
  return found[0] as WeightType;
};

async function runJoin(
  variant: Join,
  shape: { tokens: number; layers: number; columns: number; size?: number; eps?: number },
  seed: number,
): Promise<void> {
  const { tokens, layers, size = 1, eps = 1e-6 } = shape;
  const type = typeOf(variant.FORMAT);
  let { columns } = shape;
  // Layers start at whole blocks of the table.
  while (wholeColumns(type, layers * columns) !== layers * columns) columns += 32;
  const elements = layers * columns;
  const next = random(seed);
  const raw = sampleRows(type, { rows: tokens, columns: elements }, next, 1);
  const { quants, scales = new Uint32Array(4) } = repack(type, raw, tokens, elements);
  const y = randomValues((tokens + 1) * elements, next, size);
  const weight = randomValues(columns, next);
  const traits = { eps, rowScale: 0.75, scale: 0.6 };
  const out = await harness.run(
    perLayerJoin,
    variant,
    {
      params: {
        columns,
        layers,
        blocks: elements / 32,
        eps,
        row_scale: traits.rowScale,
        scale: traits.scale,
      },
      dims: { tokens },
      buffers: { quants: quants.slice(), scales: scales.slice(), weight, y },
    },
    ['y'],
  );
  const rows = dequantizeRows(type, raw, { rows: tokens, columns: elements });
  const end = tokens * elements;
  const expected = joinOracle(y.subarray(0, end), rows, weight, traits);
  const largest = rows.reduce((max, value) => Math.max(max, Math.abs(value)), 1);
  const what = `${tokens} x ${layers} x ${columns}`;
  expectClose(
    new Float32Array(out['y'] as ArrayBuffer).subarray(0, end),
    expected,
    { nmse: tolerance.nmse, maxAbs: tolerance.maxAbs * largest },
    what,
  );
  expectUntouched(out['y'] as ArrayBuffer, y, (word) => word < end, what);
}

describe('per_layer_join equals the oracle', () => {
  for (const variant of selectVariants(perLayerJoin.variants, ({ FORMAT }) => isSampleFormat(FORMAT))) {
    it(variantName(variant), async () => {
      await runJoin(variant, { tokens: 1, layers: 1, columns: 32 }, 1);
      // The parts of a row start within its blocks' groups of scales.
      await runJoin(variant, { tokens: 5, layers: 7, columns: 96 }, 2);
      await runJoin(variant, { tokens: 3, layers: 5, columns: 256 }, 3);
      // eps prevents a division by zero; only the rows are left.
      await runJoin(variant, { tokens: 2, layers: 2, columns: 64, size: 0 }, 4);
      await runJoin(variant, { tokens: 2, layers: 3, columns: 64, size: 1e-3, eps: 1e-2 }, 5);
    });
  }
});

describe('per_layer_gate equals the oracle', () => {
  it.each([
    { tokens: 1, layers: 1, layer: 0, columns: 32 },
    { tokens: 5, layers: 3, layer: 0, columns: 96 },
    { tokens: 5, layers: 3, layer: 2, columns: 96 },
    // Both ends of GELU, where e^-x overflows f32.
    { tokens: 2, layers: 4, layer: 3, columns: 256, size: 60 },
  ])('%o', async ({ tokens, layers, layer, columns, size = 2 }) => {
    const next = random(layers * 10 + layer);
    const gate = randomValues((tokens + 1) * columns, next, size);
    const inputs = randomValues((tokens + 1) * layers * columns, next);
    const out = await harness.run(
      perLayerGate,
      { WG: 64 },
      {
        params: { columns, in_stride: layers * columns, in_offset: layer * columns },
        dims: { tokens },
        buffers: { gate, inputs },
      },
      ['gate'],
    );
    const end = tokens * columns;
    const used = inputs.subarray(0, tokens * layers * columns);
    const expected = gateOracle(gate.subarray(0, end), used, { columns, layers, layer });
    const got = new Float32Array(out['gate'] as ArrayBuffer).subarray(0, end);
    expectClose(got, expected, { nmse: 1e-11, maxAbs: 3e-5 * size }, 'gated');
    expectUntouched(out['gate'] as ArrayBuffer, gate, (word) => word < end, 'gated');
  });
});

describe('scale equals the oracle', () => {
  it.each([
    { tokens: 1, columns: 1, factor: 0.5 },
    { tokens: 7, columns: 129, factor: -0.03 },
  ])('%o', async ({ tokens, columns, factor }) => {
    const y = randomValues((tokens + 2) * columns, random(tokens));
    const input = { params: { columns, scale: factor }, dims: { tokens }, buffers: { y } };
    const out = await harness.run(scale, { WG: 64 }, input, ['y']);
    const end = tokens * columns;
    const expected = y.subarray(0, end).map((value) => value * Math.fround(factor));
    expect(new Float32Array(out['y'] as ArrayBuffer).subarray(0, end)).toEqual(expected);
    expectUntouched(out['y'] as ArrayBuffer, y, (word) => word < end, 'scaled');
  });
});

describe('softcap equals the oracle', () => {
  it.each([
    { samples: 1, columns: 3, cap: 30, size: 20 },
    { samples: 5, columns: 288, cap: 6, size: 3 },
    // Logits far beyond the cap become exactly the cap.
    { samples: 2, columns: 100, cap: 30, size: 1e6 },
    { samples: 2, columns: 100, cap: 30, size: 1e-4 },
  ])('%o', async ({ samples, columns, cap, size }) => {
    const y = randomValues((samples + 1) * columns, random(columns), size);
    const input = { params: { columns, cap }, dims: { samples, tokens: samples + 3 }, buffers: { y } };
    const out = await harness.run(softcap, { WG: 64 }, input, ['y']);
    const end = samples * columns;
    const got = new Float32Array(out['y'] as ArrayBuffer).subarray(0, end);
    expectClose(got, softcapOracle(y.subarray(0, end), cap), { nmse: 1e-9, maxAbs: 2e-4 }, 'capped');
    expectUntouched(out['y'] as ArrayBuffer, y, (word) => word < end, 'capped');
  });

  it('keeps NaN, so that no token is sampled from it', async () => {
    const y = Float32Array.of(Number.NaN, 1, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY);
    const input = { params: { columns: 4, cap: 5 }, dims: { samples: 1 }, buffers: { y } };
    const out = await harness.run(softcap, { WG: 64 }, input, ['y']);
    const [first, second, third, fourth] = new Float32Array(out['y'] as ArrayBuffer);
    expect(first).toBeNaN();
    expect([second, third, fourth].every((value) => Math.abs(value as number) <= 5.001)).toBe(true);
  });
});
