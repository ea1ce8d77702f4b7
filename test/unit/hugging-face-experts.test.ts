/** Experts of Hugging Face folders in every tensor layout: correct rows with little memory, or an error. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { openHuggingFace } from '../../src/engine/formats/hugging-face/index.ts';
import type { ModelFile } from '../../src/engine/formats/model-file.ts';
import { bytesOfRow, rowsOf } from '../../src/engine/formats/rows.ts';
import { filesOf, type MemorySource, memoryFiles, memorySource } from '../support/byte-source.ts';
import { type SafeTensor, zeros } from '../support/safetensors-writer.ts';
import { type Contents, refusalOf, tinyFolder, weightsOf, withWeights } from '../support/tiny-folder.ts';

const qwen = tinyFolder('qwen3moe');
const packed = tinyFolder('gpt-oss');
const plain = tinyFolder('gpt-oss-bf16');
const at = 'model.layers.0.mlp.experts';

const joined = (parts: readonly Uint8Array[]): Uint8Array => {
  const whole = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let end = 0;
  for (const part of parts) {
    whole.set(part, end);
    end += part.length;
  }
  return whole;
};

/** As transformers 5 may write it: [experts, gate's rows, then up's, columns]. */
const stacked = (contents: Contents): Contents => {
  const weights = weightsOf(contents);
  const changes: Record<string, SafeTensor | undefined> = {};
  for (const layer of [0, 1]) {
    const place = at.replace('0', String(layer));
    const of = (expert: number, part: string) => weights[`${place}.${expert}.${part}_proj.weight`]!;
    const experts = Array.from({ length: 8 }, (_, expert) => expert);
    const [rows, columns] = of(0, 'gate').shape as [number, number];
    changes[`${place}.gate_up_proj`] = {
      dtype: 'BF16',
      shape: [8, 2 * rows, columns],
      data: joined(experts.flatMap((expert) => [of(expert, 'gate').data, of(expert, 'up').data])),
    };
    changes[`${place}.down_proj`] = {
      dtype: 'BF16',
      shape: [8, columns, rows],
      data: joined(experts.map((expert) => of(expert, 'down').data)),
    };
    for (const expert of experts)
      for (const part of ['gate', 'up', 'down'])
        changes[`${place}.${expert}.${part}_proj.weight`] = undefined;
  }
  return withWeights(contents, changes);
};

const expertsOf = (file: ModelFile) =>
  [...file.tensors.values()].filter(({ name }) => name.includes('_exps.'));

describe.each([
  ['of each expert', qwen],
  ['of all experts', stacked(qwen)],
  ['in four bits', packed],
  ['with columns before rows', plain],
])('experts in tensors %s', (_, contents) => {
  it('are read in pieces of any size, into any buffer', async () => {
    const file = await openHuggingFace(memoryFiles(contents));
    for (const tensor of expertsOf(file)) {
      const [rows, rowBytes] = [rowsOf(tensor), bytesOfRow(tensor)];
      const whole = await file.readRows(tensor, 0, rows);
      expect(whole.length).toBe(tensor.sizeBytes);
      await fc.assert(
        fc.asyncProperty(fc.nat(rows - 1), fc.nat(rows), fc.nat(5), async (first, many, shift) => {
          const count = Math.min(many, rows - first);
          const place = new Uint8Array(count * rowBytes + 9).subarray(shift);
          const read = await file.readRows(tensor, first, count, place);
          expect(read).toEqual(whole.subarray(first * rowBytes, (first + count) * rowBytes));
          expect(read.buffer).toBe(place.buffer);
        }),
        { numRuns: 20 },
      );
      await expect(file.readRows(tensor, rows, 1)).rejects.toThrow(/are outside tensor/);
    }
  });

  it('are never completely in memory', async () => {
    const weights: MemorySource = memorySource(contents['model.safetensors']!, 'model.safetensors');
    const others = Object.entries(contents).map(
      ([name, bytes]) => [name, memorySource(bytes, name)] as const,
    );
    const file = await openHuggingFace(
      filesOf({ ...Object.fromEntries(others), 'model.safetensors': weights }),
    );
    const header = weights.largestRead;
    const tensors = expertsOf(file).filter(({ name }) => name.endsWith('.weight'));
    for (const tensor of tensors) {
      for (let row = 0; row < rowsOf(tensor); row++) await file.readRows(tensor, row, 1);
    }
    const stored = Object.values(weightsOf(contents)).map(({ data }) => data.length);
    const ofAnExpert = Math.max(...stored) / 4;
    expect(weights.largestRead).toBeLessThanOrEqual(Math.max(header, ofAnExpert));
  });
});

it('the same experts in different layouts are the same model', async () => {
  const [separate, together] = [
    await openHuggingFace(memoryFiles(qwen)),
    await openHuggingFace(memoryFiles(stacked(qwen))),
  ];
  expect([...together.tensors.keys()].sort()).toEqual([...separate.tensors.keys()].sort());
  for (const tensor of expertsOf(separate)) {
    const other = together.tensors.get(tensor.name)!;
    expect({ ...other, offset: 0 }).toEqual({ ...tensor, offset: 0 });
    const all = (file: ModelFile) => file.readRows(file.tensors.get(tensor.name)!, 0, rowsOf(tensor));
    expect([tensor.name, await all(together)]).toEqual([tensor.name, await all(separate)]);
  }
});

it.each([
  ['F32', 4],
  ['F16', 2],
])('transposed experts of %s are read correctly', async (dtype, size) => {
  const { shape } = weightsOf(plain)[`${at}.down_proj`]!;
  const [experts, columns, rows] = shape as [number, number, number];
  const numbers = Array.from({ length: experts * columns * rows }, (_, i) => i % 1999);
  const of = (values: readonly number[]) =>
    new Uint8Array((size === 4 ? Float32Array : Float16Array).from(values).buffer);
  const file = await openHuggingFace(
    memoryFiles(withWeights(plain, { [`${at}.down_proj`]: { dtype, shape, data: of(numbers) } })),
  );
  const tensor = file.tensors.get('blk.0.ffn_down_exps.weight')!;
  expect(tensor).toMatchObject({ type: dtype, shape: [experts, rows, columns] });
  const turned = Array.from({ length: experts * rows * columns }, (_, i) => {
    const [column, row, expert] = [
      i % columns,
      Math.floor(i / columns) % rows,
      Math.floor(i / columns / rows),
    ];
    return numbers[(expert * columns + column) * rows + row]!;
  });
  expect(await file.readRows(tensor, 0, experts * rows)).toEqual(of(turned));
});

it('an expert whose read failed is read again on the next request', async () => {
  const weights = memorySource(plain['model.safetensors']!, 'model.safetensors');
  const others = Object.entries(plain).map(([name, bytes]) => [name, memorySource(bytes, name)] as const);
  let broken = false;
  const shaky: MemorySource = Object.assign(Object.create(weights) as MemorySource, {
    read: (offset: number, length: number, into?: Uint8Array) =>
      broken ? Promise.reject(new Error('gone')) : weights.read(offset, length, into),
  });
  const file = await openHuggingFace(filesOf({ ...Object.fromEntries(others), 'model.safetensors': shaky }));
  const tensor = file.tensors.get('blk.0.ffn_gate_exps.weight')!;
  broken = true;
  await expect(file.readRows(tensor, 0, 1)).rejects.toThrow('gone');
  broken = false;
  expect((await file.readRows(tensor, 0, 1)).length).toBe(bytesOfRow(tensor));
});

const blocks = `${at}.gate_up_proj_blocks`;
const scales = `${at}.gate_up_proj_scales`;
const second = `${at}.1.up_proj.weight`;

describe('experts that do not match the configuration', () => {
  it.each<[string, Contents, Record<string, SafeTensor | undefined>, RegExp]>([
    [
      'one missing',
      qwen,
      { [second]: undefined },
      /is one of 7 experts, but config\.json says 8, without expert 1/,
    ],
    [
      'one of another shape',
      qwen,
      { [second]: zeros('BF16', [64, 32], 2) },
      /experts\.1\.up_proj\.weight' is BF16 \[64, 32\], but that of another expert is BF16 \[32, 64\]/,
    ],
    [
      'one of another type',
      qwen,
      { [second]: zeros('F16', [32, 64], 2) },
      /is F16 \[32, 64\], but that of another expert is BF16/,
    ],
    [
      'one in whole numbers',
      qwen,
      { [`${at}.0.up_proj.weight`]: zeros('I8', [32, 64], 1) },
      /is I8 \[32, 64\], not a matrix of F32, F16 or BF16/,
    ],
    [
      'all in one tensor and one by one',
      qwen,
      { [`${at}.down_proj`]: zeros('BF16', [8, 64, 32], 2) },
      /experts\.down_proj' maps to blk\.0\.ffn_down_exps\.weight/,
    ],
    [
      'too few in one tensor',
      plain,
      { [`${at}.down_proj`]: zeros('BF16', [3, 32, 64], 2) },
      /is BF16 \[3, 32, 64\], not F32, F16 or BF16 \[4, \., \.\] for all experts/,
    ],
    [
      'an odd number of rows',
      plain,
      { [`${at}.gate_up_proj`]: zeros('BF16', [4, 64, 63], 2) },
      /holds gate and up in an odd number of rows/,
    ],
    [
      'biases of another shape',
      plain,
      { [`${at}.down_proj_bias`]: zeros('BF16', [64], 2) },
      /down_proj_bias' is BF16 \[64\], not F32, F16 or BF16 \[4, \.\]/,
    ],
    ['blocks without exponents', packed, { [scales]: undefined }, /_blocks' has no matching scales tensor/],
    ['exponents without blocks', packed, { [blocks]: undefined }, /_scales' has no matching blocks tensor/],
    [
      'blocks of another size',
      packed,
      { [blocks]: zeros('U8', [8, 64, 2, 8], 1) },
      /is U8 \[8, 64, 2, 8\], not U8 \[8, \., \., 16\]/,
    ],
    [
      'exponents of other blocks',
      packed,
      { [scales]: zeros('U8', [8, 64, 1], 1) },
      /_scales' is U8 \[8, 64, 1\], but its blocks are \[8, 64, 2, 16\]/,
    ],
  ])('are refused: %s', async (_, contents, changes, message) => {
    expect(await refusalOf(withWeights(contents, changes))).toEqual({
      code: 'bad_tensors',
      message: expect.stringMatching(message),
    });
  });

  it('are rejected beyond the last layer, and in families without experts', async () => {
    const more = { 'model.layers.7.mlp.experts.0.up_proj.weight': zeros('BF16', [32, 64], 2) };
    for (const [contents, changes] of [
      [qwen, more],
      [qwen, { [`${at}.gate_up_proj_extra`]: zeros('BF16', [8], 2) }],
      [tinyFolder('qwen3'), { [`${at}.0.up_proj.weight`]: zeros('BF16', [32, 64], 2) }],
    ] as const) {
      expect((await refusalOf(withWeights(contents, changes))).code).toBe('unsupported_tensors');
    }
  });
});
