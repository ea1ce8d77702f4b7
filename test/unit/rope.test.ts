import { describe, expect, it } from 'vitest';
import type { MetadataScalar } from '../../src/engine/formats/model-file.ts';
import type { Rope } from '../../src/engine/graph/graph.ts';
import { readRope } from '../../src/engine/models/rope.ts';
import { ropeTable } from '../../src/engine/memory/rope-table.ts';
import { memoryModel } from '../support/memory-model.ts';

type Members = Readonly<Record<string, MetadataScalar>>;

/** Heads of 16 elements. */
const usual: Members = { embedding_length: 64, 'attention.head_count': 4, context_length: 256 };

const rope = (members: Members, tensors: Readonly<Record<string, readonly number[]>> = {}): Promise<Rope> => {
  const metadata = new Map<string, MetadataScalar>([['general.architecture', 'llama']]);
  for (const [key, value] of Object.entries({ ...usual, ...members })) metadata.set(`llama.${key}`, value);
  const vectors = Object.entries(tensors).map(([name, list]) => [
    name,
    { shape: [list.length], values: Float32Array.from(list) },
  ]);
  return readRope(memoryModel(metadata, Object.fromEntries(vectors)), 'neox');
};

/** Radians for each position by pair, and the factor of cosine and sine, for a served context of this length. */
function turnsOf(one: Rope, positions = 2): { frequencies: number[]; magnitude: number } {
  const pairs = one.rotary / 2;
  const row = ropeTable(one, positions).subarray(2 * pairs, 4 * pairs);
  const frequencies = Array.from({ length: pairs }, (_, i) =>
    Math.atan2(row[2 * i + 1] as number, row[2 * i] as number),
  );
  return { frequencies, magnitude: Math.hypot(row[0] as number, row[1] as number) };
}

const near = (values: readonly number[]) => values.map((value) => expect.closeTo(value, 6));
const plain = Array.from({ length: 8 }, (_, i) => 10000 ** (-i / 8));

describe('the rotary embedding of a file', () => {
  it('is plain without metadata, and rotates a part of each head when specified', async () => {
    expect(turnsOf(await rope({})).frequencies).toEqual(near(plain));
    expect(await rope({ 'rope.dimension_count': 8, 'rope.freq_base': 500 })).toEqual({
      theta: 500,
      rotary: 8,
      style: 'neox',
      scale: 1,
      magnitude: 1,
    });
  });

  it('is scaled linearly by a factor, with or without an explicit type', async () => {
    const expected = near(plain.map((one) => one / 4));
    for (const members of [
      { 'rope.scaling.type': 'linear', 'rope.scaling.factor': 4 },
      { 'rope.scaling.factor': 4 },
      { 'rope.scale_linear': 4 },
    ]) {
      expect(turnsOf(await rope(members)).frequencies).toEqual(expected);
    }
    expect((await rope({ 'rope.scaling.type': 'none', 'rope.scaling.factor': 4 })).scale).toBe(1);
  });

  it('has the divisors of Llama 3', async () => {
    const factors = [1, 1, 2, 3, 4, 8, 8, 8];
    const got = turnsOf(await rope({}, { 'rope_freqs.weight': factors }));
    expect(got.frequencies).toEqual(near(plain.map((one, i) => one / (factors[i] as number))));
  });

  // Both as computed by transformers.
  it('is YaRN with default parameters', async () => {
    const yarn = { 'rope.scaling.type': 'yarn', 'rope.scaling.factor': 4 };
    const got = turnsOf(await rope({ ...yarn, 'rope.scaling.original_context_length': 64 }));
    expect(got.frequencies).toEqual(
      near([1, 0.2371708, 0.05, 0.00790569, 0.0025, 0.00079057, 0.00025, 0.0000790569]),
    );
    expect(got.magnitude).toBeCloseTo(1.1386294, 6);
  });

  it('is YaRN with its own parameters', async () => {
    const got = turnsOf(
      await rope({
        'rope.scaling.type': 'yarn',
        'rope.scaling.factor': 8,
        'rope.scaling.original_context_length': 2048,
        'rope.freq_base': 1e6,
        'rope.scaling.yarn_beta_fast': 16,
        'rope.scaling.yarn_beta_slow': 2,
        'rope.scaling.yarn_attn_factor': 1.7,
      }),
    );
    expect(got.frequencies).toEqual(
      near([1, 0.1778279, 0.0177878, 0.00070293, 0.000125, 0.0000222285, 0.00000395285, 7.029e-7]),
    );
    expect(got.magnitude).toBeCloseTo(1.7, 6);
  });

  it('is LongRoPE: short factors up to the original context length, long ones for longer contexts', async () => {
    const [short, long] = [
      [1, 1, 1, 1, 1, 2, 2, 2],
      [1, 2, 4, 8, 16, 32, 64, 64],
    ];
    const factors = { 'rope_factors_short.weight': short, 'rope_factors_long.weight': long };
    const one = await rope({ 'rope.scaling.original_context_length': 64 }, factors);
    const by = (list: readonly number[]) => near(plain.map((value, i) => value / (list[i] as number)));
    expect(turnsOf(one, 64).frequencies).toEqual(by(short));
    expect(turnsOf(one, 65).frequencies).toEqual(by(long));
    // 256 tokens are four times 64.
    const magnitude = Math.sqrt(1 + Math.log(4) / Math.log(64));
    expect([64, 65].map((positions) => turnsOf(one, positions).magnitude)).toEqual(
      near([magnitude, magnitude]),
    );
    const metadata = { 'rope.scaling.original_context_length': 64, 'rope.scaling.attn_factor': 1.25 };
    expect((await rope(metadata, factors)).magnitude).toBe(1.25);
  });

  it.each([
    [
      'a kind that is not known',
      { 'rope.scaling.type': 'su' },
      {},
      "'su' is not supported (supported: none, linear",
    ],
    ['LongRoPE without its factors', { 'rope.scaling.type': 'longrope' }, {}, "'rope_factors_short.weight'"],
    [
      'YaRN without a factor',
      { 'rope.scaling.type': 'yarn' },
      {},
      "'llama.rope.scaling.factor' must be a number",
    ],
    [
      'too few divisors',
      {},
      { 'rope_freqs.weight': [1, 2] },
      "'rope_freqs.weight' must hold 8 numbers above 0",
    ],
    ['a divisor of 0', {}, { 'rope_freqs.weight': [1, 1, 1, 1, 1, 1, 1, 0] }, 'must hold 8 numbers above 0'],
  ] as const)('%s is rejected', async (_what, members, tensors, message) => {
    await expect(rope(members, tensors)).rejects.toThrow(message);
  });
});
