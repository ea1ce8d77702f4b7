import { describe, expect, it } from 'vitest';
import { contracts } from '../../kernels/contracts.ts';
import { formatNames, weightFormats } from '../../kernels/formats.ts';
import { applyRope, dequantizeRows, f16FromNumber, type WeightType } from '../../kernels/reference/index.ts';
import { repack } from '../../src/engine/loading/repack.ts';
import { describeOp, labOps, type LiveShape, tolerances } from '../../src/lab/ops/index.ts';
import { Random } from '../../src/lab/ops/random.ts';
import { randomWeights, WeightReader } from '../../src/lab/ops/random-weights.ts';
import {
  type ExpectedOutput,
  labOps as labOpsShape,
  type ParityCase,
  type TensorData,
} from '../../src/lab/types.ts';
import { random, randomValues } from '../support/kernel-harness.ts';
import { sampleRows, wholeColumns } from '../support/random-blocks.ts';
import { rounds } from '../support/tier.ts';

const formats = ['q8_0', 'f16'];
const opOf = (name: string) => {
  const op = labOps.get(name);
  if (!op) throw new Error(`no op ${name}`);
  return op;
};
/** A parity case written by hand. */
const handmade = (
  tensors: Record<string, TensorData>,
  params: Record<string, number>,
  dims: Record<string, number>,
  format?: string,
): ParityCase => ({ name: 'handmade', dims, params, tensors, ...(format === undefined ? {} : { format }) });
const oracle = (op: string, one: ParityCase, output: string): ExpectedOutput => {
  const expected = opOf(op).oracle(one)[output];
  if (!expected) throw new Error(`${op} has no ${output}`);
  return expected;
};
const keptOf = ({ preserved: kept }: ExpectedOutput) => [...(kept ?? [])].join('');
const f32 = (...values: number[]) => Float32Array.from(values);
const u32 = (...values: number[]) => Uint32Array.from(values);

describe('the cases of every op', () => {
  it('there is an op for every contract', () => {
    expect([...labOps.keys()].sort()).toEqual([...contracts.keys()].sort());
  });

  for (const [name, { contract, cases, oracle: expectedOf }] of labOps) {
    describe(name, () => {
      it('are equal for equal seeds and differ for others', () => {
        const [a, again, other] = [5, 5, 6].map((seed) => cases({ seed, formats }));
        expect(again).toEqual(a);
        const differing = contract.bindings.filter(
          ({ name: binding }) =>
            a?.[0]?.tensors[binding] &&
            JSON.stringify(a[0].tensors[binding]) !== JSON.stringify(other?.[0]?.tensors[binding]),
        );
        expect(differing.length).toBe(Object.keys(a?.[0]?.tensors ?? {}).length);
      });

      it('cover all kinds and formats, with one token for single-token ops', () => {
        const list = cases({ seed: 1, formats });
        const readsWeights = contract.bindings.some(({ dtype }) => dtype === 'weights');
        for (const format of readsWeights ? formats : [undefined]) {
          const own = list.filter((one) => one.format === format);
          const kinds = new Set(own.map((one) => one.name.split(' ')[0]));
          expect(kinds).toEqual(new Set(['extreme', 'one_row', 'ragged', 'random']));
          const counts = new Set(own.map(({ dims }) => dims['tokens'] as number));
          if (contract.tokens === 'one') expect([...counts]).toEqual([1]);
          else expect(Math.min(...counts) === 1 && Math.max(...counts) >= 130).toBe(true);
        }
        expect(cases({ seed: 1, formats, strict: true }).length).toBeGreaterThan(list.length);
      });

      it('contain every binding and param, and the oracle computes every output', () => {
        for (const one of cases({ seed: 2, formats, strict: true })) {
          const stored = contract.bindings.filter(({ role }) => role !== 'uniform');
          const given = stored.filter(({ role }) => role !== 'out');
          expect(Object.keys(one.tensors).sort(), one.name).toEqual(
            given.map((binding) => binding.name).sort(),
          );
          const members = contract.bindings.find((binding) => binding.name === 'params')?.members ?? [];
          expect(Object.keys(one.params).sort()).toEqual(members.map(([member]) => member).sort());
          for (const { name: dim, multipleOf = 1 } of contract.dims) {
            if (one.dims[dim] === undefined) expect(dim, one.name).toBe('context');
            else if (dim !== 'context') expect(one.dims[dim] % multipleOf, `${one.name} ${dim}`).toBe(0);
          }
          const outputs = stored.filter(({ role }) => role !== 'in');
          const expected = expectedOf(one);
          expect(Object.keys(expected).sort()).toEqual(outputs.map((binding) => binding.name).sort());
          for (const { name: output, role, dtype } of outputs) {
            const { values, preserved: kept, unspecified: open } = expected[output] as ExpectedOutput;
            expect(kept?.length ?? values.length).toBe(values.length);
            expect(open?.length ?? values.length).toBe(values.length);
            expect(values.every(Number.isFinite), `${one.name} ${output}`).toBe(true);
            const contents = one.tensors[output];
            if (role === 'inout')
              expect(values.length).toBe((contents?.length ?? 0) * (dtype === 'f16' ? 2 : 1));
          }
          const compared = Object.values(expected).some(({ values, preserved: kept, unspecified: open }) =>
            values.some((_, i) => !kept?.[i] && !open?.[i]),
          );
          expect(compared, one.name).toBe(true);
        }
      });

      it('are small: registration to verdict takes less than a second', () => {
        const numbers = cases({ seed: 3, formats: ['q8_0'] }).flatMap((one) =>
          Object.values(one.tensors).map(({ length }) => length),
        );
        expect(numbers.reduce((sum, length) => sum + length, 0)).toBeLessThan(2e6);
      });
    });
  }

  it('preserve rows after the step and elements between rows', () => {
    const kept = (op: string, output: string) =>
      opOf(op)
        .cases({ seed: 1, formats: ['q8_0'] })
        .some((one) => oracle(op, one, output).preserved?.some(Boolean));
    for (const op of ['matvec', 'norm_gated_matmul', 'rms_norm', 'gated_activation', 'add']) {
      expect(kept(op, 'y'), op).toBe(true);
    }
    expect(kept('attention', 'out')).toBe(true);
    expect(kept('sample', 'results')).toBe(true);
  });
});

describe('every run has inputs that the product meets', () => {
  const pendingId = 0xffffffff;
  const seeds = Array.from({ length: rounds(12, 4) }, (_, n) => 1000 + 77 * n);
  interface Row {
    readonly id: number;
    readonly position: number;
    readonly slot: number;
  }
  const rowsOf = ({ tensors, dims }: ParityCase): Row[] => {
    const words = tensors['token'] as Uint32Array;
    return Array.from({ length: dims['tokens'] as number }, (_, t) => {
      const [id = 0, position = 0, slot = 0] = words.subarray(4 * t);
      return { id, position, slot };
    });
  };
  const pagesOf = (one: ParityCase): number[] =>
    rowsOf(one).map(({ position, slot }) => {
      const table = one.tensors['page_table'] as Uint32Array;
      return table[slot * (one.params['max_pages'] as number) + Math.floor(position / 32)] as number;
    });
  const runsOf = (op: string) => seeds.map((seed) => opOf(op).cases({ seed, formats: ['q8_0'] }));

  it.each(['attention', 'attention_decode', 'rope', 'kv_write', 'rope_kv_write'])(
    'ids and positions of %s',
    (op) => {
      for (const cases of runsOf(op)) {
        const steps = cases.map(rowsOf);
        for (const id of [pendingId, 0])
          expect(steps.some((rows) => rows.every((row) => row.id === id))).toBe(true);
        for (const position of [0, 1, 2, 31, 32])
          expect(steps.some((rows) => rows.length === 1 && rows[0]?.position === position)).toBe(true);
        const far = new Set(
          steps
            .flat()
            .map(({ position }) => position)
            .filter((position) => position > 32),
        );
        expect(far.size).toBeGreaterThanOrEqual(8);
        if (op === 'attention_decode') continue;
        const someStep = (holds: (row: Row, before: Row, first: Row, rows: readonly Row[]) => boolean) =>
          steps.some((rows) =>
            rows.some((row, n) => n > 0 && holds(row, rows[n - 1] as Row, rows[0] as Row, rows)),
          );
        expect(someStep((row, before) => row.slot === before.slot && row.id === before.id)).toBe(true);
        expect(
          someStep(
            (row, _before, first) =>
              row.slot !== first.slot && row.position === first.position && row.id === first.id,
          ),
        ).toBe(true);
        expect(
          someStep((row, before, _first, rows) => {
            const own = rows.filter(({ slot }) => slot === before.slot);
            return row.slot !== before.slot && own.length >= 96;
          }),
        ).toBe(true);
        expect(
          steps.some(
            (rows) =>
              rows.length > 32 && rows[0]?.slot === rows[32]?.slot && (rows[0]?.position ?? 0) % 32 > 0,
          ),
        ).toBe(true);
        if (op === 'rope') continue;
        const large = cases.filter(({ params }) => params['max_pages'] === 32).flatMap(pagesOf);
        expect(large.some((page) => page > 127 && page < 256) && large.some((page) => page > 255)).toBe(true);
      }
    },
  );

  it('page tables of attention that begin with the same pages', () => {
    for (const cases of runsOf('attention')) {
      const found = cases.some((one) => {
        const [first, ...others] = rowsOf(one);
        const table = one.tensors['page_table'] as Uint32Array;
        const firstPage = (slot: number) => table[slot * (one.params['max_pages'] as number)];
        return (
          first &&
          others.some(
            ({ slot, position }) =>
              slot !== first.slot &&
              position > 32 &&
              position <= first.position &&
              firstPage(slot) === firstPage(first.slot),
          )
        );
      });
      expect(found).toBe(true);
    }
  });

  it('pending ids of several slots at one position, with different tokens', () => {
    for (const cases of runsOf('embed')) {
      const found = cases.some((one) => {
        const sampled = one.tensors['sampled'] as Uint32Array;
        const [first, ...others] = rowsOf(one);
        return (
          first?.id === pendingId &&
          others.some(
            ({ id, position, slot }) =>
              id === pendingId && position === first.position && sampled[slot] !== sampled[first.slot],
          )
        );
      });
      expect(found).toBe(true);
    }
  });

  it('samples: small seeds, large counts, drafts, and tokens that were sampled before', () => {
    for (const cases of runsOf('sample')) {
      const rows = cases.flatMap((one) => {
        const samples = one.tensors['samples'] as Uint32Array;
        const floats = new Float32Array(samples.buffer);
        const results = oracle('sample', one, 'results').values;
        return Array.from({ length: one.dims['tokens'] as number }, (_, t) => {
          const [, slot = 0, flags = 0, seed = 0] = samples.subarray(12 * t);
          const token = results[t] as number;
          const count = (one.tensors['seen'] as Uint32Array)[
            slot * (one.params['vocabulary'] as number) + token
          ];
          return {
            one,
            slot,
            seed,
            isRandom: (floats[12 * t + 6] as number) > 0,
            count: flags & 2 ? (count ?? 0) & 0x7fffffff : 0,
            wasLast: (one.tensors['sampled'] as Uint32Array)[slot] === token,
            frequency: floats[12 * t + 11] as number,
          };
        });
      });
      for (const seed of [0, 1, 0xffffffff])
        expect(rows.some((row) => row.isRandom && row.seed === seed)).toBe(true);
      for (const count of [127, 255]) expect(rows.some((row) => row.count === count)).toBe(true);
      expect(rows.some(({ isRandom, wasLast }) => isRandom && wasLast)).toBe(true);
      expect(rows.some(({ isRandom, wasLast }) => isRandom && !wasLast)).toBe(true);
      expect(rows.some(({ frequency, count }) => frequency < 0 && count > 127)).toBe(true);
      expect(rows.some((row, n) => row.one === rows[n - 1]?.one && row.slot === rows[n - 1]?.slot)).toBe(
        true,
      );
    }
  });

  it('rows that are similar to the row before, and three step sizes of every class', () => {
    for (const op of ['rms_norm', 'norm_add', 'matmul', 'norm_matmul', 'norm_gated_matmul']) {
      for (const cases of runsOf(op)) {
        let [equal, sameSigns, multiple] = [0, 0, 0];
        for (const { tensors, params, dims } of cases) {
          const x = tensors['x'] as Float32Array;
          const [columns, stride] = [
            dims['columns'] as number,
            params['x_stride'] ?? (dims['columns'] as number),
          ];
          for (let t = 1; t < (dims['tokens'] as number); t++) {
            const row = x.subarray(t * stride, t * stride + columns);
            const ratios = Array.from(row, (value, c) => value / (x[(t - 1) * stride + c] as number));
            const [least, most] = [Math.min(...ratios), Math.max(...ratios)];
            if (least === 1 && most === 1) equal += 1;
            else if (Math.abs(most - least) < 1e-4) multiple += 1;
            else if (least > 0) sameSigns += 1;
          }
        }
        expect(Math.min(equal, sameSigns, multiple), op).toBeGreaterThan(2);
        const sizes = new Set(cases.map(({ dims }) => dims['tokens'] as number));
        expect(sizes.has(113)).toBe(true);
        for (const [low, high] of [
          [2, 8],
          [9, 16],
          [17, 32],
          [33, 64],
          [65, 127],
          [128, 200],
          [201, 511],
        ] as const)
          expect([...sizes].filter((size) => size >= low && size <= high).length).toBeGreaterThanOrEqual(3);
      }
    }
  });
});

describe('weights in their GPU layout', () => {
  it.each(Object.entries(weightFormats))('%s decodes like the file format', (type, { name }) => {
    const [rows, columns] = [3, wholeColumns(type as WeightType, 32) > 32 ? 256 : 288];
    const raw = sampleRows(type as WeightType, { rows, columns }, random(4));
    const { quants, scales = new Uint32Array(4) } = repack(type as WeightType, raw, rows, columns);
    const wordsOf = (data: ArrayBufferView) => {
      const bytes = new Uint8Array(Math.ceil(data.byteLength / 4) * 4);
      bytes.set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
      return new Uint32Array(bytes.buffer);
    };
    const reader = new WeightReader({ quants: wordsOf(quants), scales: wordsOf(scales) }, name, columns);
    const all = dequantizeRows(type as WeightType, raw, { rows, columns });
    for (const row of [2, 0, 1]) {
      expect(reader.row(row)).toEqual(all.slice(row * columns, (row + 1) * columns));
    }
  });

  it.each(formatNames)('random %s has about the requested magnitude, and no empty rows', (format) => {
    const packed = randomWeights(new Random(1, 'weights'), format, 40, 256, 0.1);
    const reader = new WeightReader(packed, format, 256);
    let squares = 0;
    for (let row = 0; row < 40; row++) {
      const own = reader.row(row).reduce((sum, value) => sum + value * value, 0);
      expect(own).toBeGreaterThan(0.3);
      squares += own;
    }
    expect(Math.sqrt(squares / (40 * 256))).toBeGreaterThan(0.09);
    expect(Math.sqrt(squares / (40 * 256))).toBeLessThan(0.12);
  });

  it('rejects an unknown format', () => {
    expect(() => randomWeights(new Random(1, ''), 'q5_2', 1, 32, 1)).toThrow(
      /'q5_2': expected one of f32, f16/,
    );
  });
});

describe('oracles give results computed by hand', () => {
  /** Rows of f32 weights that are non-zero only in their first columns. */
  const weights = (...rows: number[][]) => {
    const all = new Float32Array(rows.length * 32);
    rows.forEach((row, index) => all.set(row, index * 32));
    return new Uint32Array(all.buffer);
  };
  const inputs = (...values: number[]) => {
    const x = new Float32Array(36);
    x.set(values);
    return x;
  };
  const product = { rows: 2, blocks: 1, x_stride: 36, y_stride: 4, y_offset: 1, has_bias: 0, eps: 0 };
  const dims = { tokens: 1, rows: 2, columns: 32, blocks: 1, block_bytes: 128 };
  const matrices = { quants: weights([1, 2], [3, -1]), scales: u32(0, 0, 0, 0), x: inputs(10, 1) };

  it('a product writes its rows starting at y_offset', () => {
    const one = handmade({ ...matrices, bias: f32(9, 9, 9, 9) }, product, dims, 'f32');
    const y = oracle('matmul', one, 'y');
    expect([...y.values]).toEqual([0, 12, 29, 0]);
    expect(keptOf(y)).toBe('1001');
    const biased = handmade({ ...matrices, bias: f32(0.5, 100) }, { ...product, has_bias: 1 }, dims, 'f32');
    expect([...oracle('matvec', biased, 'y').values]).toEqual([0, 12.5, 129, 0]);
    const scaled = { ...biased, params: { ...biased.params, scale: 2 } };
    expect([...oracle('matvec', scaled, 'y').values]).toEqual([0, 25, 258, 0]);
  });

  it('a product adds to y', () => {
    const one = handmade(
      { ...matrices, bias: f32(0, 0, 0, 0), y: f32(7, 100, 1000, 8) },
      product,
      dims,
      'f32',
    );
    const y = oracle('matmul_add', one, 'y');
    expect([...y.values]).toEqual([7, 112, 1029, 8]);
    expect(keptOf(y)).toBe('1001');
  });

  it('a product first normalizes its input, with the norm weight', () => {
    // The mean square of (8, 0, ..) over 32 columns is 2; with eps it is 4.
    const tensors = {
      ...matrices,
      x: inputs(8, 0),
      bias: f32(0, 0, 0, 0),
      norm_weight: new Float32Array(32).fill(3),
    };
    const one = handmade(tensors, { ...product, eps: 2 }, dims, 'f32');
    expect([...oracle('norm_matvec', one, 'y').values]).toEqual([0, 12, 36, 0]);
  });

  it('gate rows come before up rows', () => {
    const quants = weights([0], [1], [5], [2]);
    const one = handmade({ ...matrices, quants, x: inputs(3), bias: f32(1, 1, 1, 1) }, product, dims, 'f32');
    const { values } = oracle('gated_matmul', one, 'y');
    expect(values[1]).toBe(0);
    expect(values[2]).toBeCloseTo((3 / (1 + Math.exp(-3))) * 6, 12);
  });

  it('embed uses the last sampled token if the record refers to it', () => {
    const tensors = {
      quants: weights([1], [2], [3]),
      scales: u32(0, 0, 0, 0),
      token: u32(2, 0, 1, 0, 0xffffffff, 0, 1, 0, 7, 7, 7, 7),
      sampled: u32(9, 1, 9, 9),
    };
    const one = handmade(tensors, { blocks: 1, scale: 10 }, { tokens: 2, vocabulary: 3, columns: 32 }, 'f32');
    const y = oracle('embed', one, 'y');
    expect([y.values[0], y.values[32], y.values.length]).toEqual([30, 20, 96]);
    expect(keptOf(y)).toBe('0'.repeat(64) + '1'.repeat(32));
  });

  it('add adds the rows of the step', () => {
    const one = handmade({ x: f32(1, 2, 3, 4), y: f32(10, 20, 30, 40) }, { columns: 2 }, { tokens: 1 });
    const y = oracle('add', one, 'y');
    expect([...y.values]).toEqual([11, 22, 30, 40]);
    expect(keptOf(y)).toBe('0011');
  });

  it('norms: a row, and heads in the middle of one', () => {
    const norm = handmade(
      { x: f32(3, 4), norm_weight: f32(1, 10) },
      { columns: 2, eps: 0 },
      { tokens: 1, columns: 2 },
    );
    const rms = Math.sqrt(12.5);
    expect([...oracle('rms_norm', norm, 'y').values]).toEqual(
      [3 / rms, 40 / rms].map((v) => expect.closeTo(v, 12)),
    );
    const heads = { count: 1, head_dim: 2, stride: 4, offset: 1, eps: 0 };
    const one = handmade({ qkv: f32(7, 3, 4, 8), norm_weight: f32(1, 10) }, heads, {
      tokens: 1,
      count: 1,
      head_dim: 2,
    });
    const qkv = oracle('head_norm', one, 'qkv');
    expect([...qkv.values]).toEqual([7, 3 / rms, 40 / rms, 8].map((v) => expect.closeTo(v, 12)));
    expect(keptOf(qkv)).toBe('1001');
  });

  it('norm_add adds the norm of a row', () => {
    const one = handmade(
      { x: f32(3, 4, 9, 9), norm_weight: f32(1, 10), y: f32(100, 200, 5, 6) },
      { columns: 2, eps: 0 },
      { tokens: 1, columns: 2 },
    );
    const rms = Math.sqrt(12.5);
    const y = oracle('norm_add', one, 'y');
    expect([...y.values]).toEqual([100 + 3 / rms, 200 + 40 / rms, 5, 6].map((v) => expect.closeTo(v, 12)));
    expect(keptOf(y)).toBe('0011');
  });

  it('GELU (tanh approximation), if params.activation is 1', () => {
    const one = (activation: number) =>
      handmade({ gate_up: f32(2, 3) }, { columns: 1, y_stride: 1, activation }, { tokens: 1, columns: 1 });
    const tanh = 0.5 * 2 * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (2 + 0.044715 * 8)));
    expect(oracle('gated_activation', one(1), 'y').values[0]).toBeCloseTo(3 * tanh, 12);
    expect(oracle('gated_activation', one(0), 'y').values[0]).toBeCloseTo(6 / (1 + Math.exp(-2)), 12);
  });

  it('gated_activation preserves elements after its columns', () => {
    const one = handmade(
      { gate_up: f32(0, 100, 5, 2) },
      { columns: 2, y_stride: 3 },
      { tokens: 1, columns: 2 },
    );
    const y = oracle('gated_activation', one, 'y');
    expect([...y.values]).toEqual([0, 200, 0]);
    expect(keptOf(y)).toBe('001');
  });

  // One head of q, one of k, one of v; the first two of four elements, or all, are rotated by 90 degrees.
  const turned = (rotary: number, neox: number) => ({
    heads: 1,
    kv_heads: 1,
    head_dim: 4,
    rotary,
    neox,
    max_pages: 1,
    page: 2,
  });
  const rotation = { tokens: 1, heads: 1, kv_heads: 1, head_dim: 4 };
  const qkv = () => f32(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12);
  const token = u32(0, 1, 0, 0);

  it('rope rotates pairs of both styles, with the table row of the position', () => {
    const still = [1, 0, 1, 0];
    const quarter = [0, 1, 0, 1];
    const tensors = { qkv: qkv(), table: f32(...still, ...quarter), token };
    const plain = oracle('rope', handmade(tensors, turned(4, 0), rotation), 'qkv');
    expect([...plain.values]).toEqual([-2, 1, -4, 3, -6, 5, -8, 7, 9, 10, 11, 12]);
    expect(keptOf(plain)).toBe('000000001111');
    const neox = oracle('rope', handmade(tensors, turned(4, 1), rotation), 'qkv');
    expect([...neox.values]).toEqual([-3, -4, 1, 2, -7, -8, 5, 6, 9, 10, 11, 12]);
    const half = { ...tensors, table: f32(1, 0, 0, 1) };
    const some = oracle('rope', handmade(half, turned(2, 1), rotation), 'qkv');
    expect([...some.values]).toEqual([-2, 1, 3, 4, -6, 5, 7, 8, 9, 10, 11, 12]);
    expect(keptOf(some)).toBe('001100111111');
  });

  it('rope agrees with the definition by frequencies', () => {
    for (const style of ['interleaved', 'neox'] as const) {
      const next = random(3);
      const [heads, headDim, rotaryDim, position] = [3, 16, 12, 7];
      const values = randomValues((heads + 2) * headDim, next);
      const rope = { style, theta: 10_000, rotaryDim };
      const table = new Float32Array(8 * rotaryDim);
      for (let i = 0; i < rotaryDim / 2; i++) {
        const angle = position * 10_000 ** ((-2 * i) / rotaryDim);
        table.set([Math.cos(angle), Math.sin(angle)], position * rotaryDim + 2 * i);
      }
      const params = {
        heads: 3,
        kv_heads: 1,
        head_dim: headDim,
        rotary: rotaryDim,
        neox: style === 'neox' ? 1 : 0,
        max_pages: 1,
        page: 32,
      };
      const one = handmade({ qkv: values, table, token: u32(0, position, 0, 0) }, params, { tokens: 1 });
      const turnedHeads = values.subarray(0, (heads + 1) * headDim);
      const expected = applyRope(turnedHeads, [position], { heads: heads + 1, headDim }, rope);
      const got = oracle('rope', one, 'qkv').values;
      expected.forEach((value, i) => expect(got[i]).toBeCloseTo(value, 6));
    }
  });

  it('kv_write finds the cache row by the page table, and rounds to f16', () => {
    const caches = { k_cache: new Uint32Array(12).fill(0x3c003c00), v_cache: new Uint32Array(12) };
    const values = qkv();
    values[4] = 0.1;
    // Position 3 of slot 1 is the second row of its second page, which is page 2.
    const one = handmade(
      { qkv: values, token: u32(0, 3, 1, 0), page_table: u32(0, 0, 1, 2), ...caches },
      { ...turned(4, 0), max_pages: 2 },
      rotation,
    );
    const k = oracle('kv_write', one, 'k_cache');
    const tenth = new Float16Array(Uint16Array.of(f16FromNumber(0.1)).buffer)[0] as number;
    expect([...k.values].slice(16)).toEqual([1, 1, 1, 1, tenth, 6, 7, 8]);
    expect(keptOf(k)).toBe('1'.repeat(20) + '0'.repeat(4));
    expect([...oracle('kv_write', one, 'v_cache').values].slice(20)).toEqual([9, 10, 11, 12]);
  });

  it('rope_kv_write caches the rotated key; k and v in qkv are unspecified', () => {
    const tensors = { qkv: qkv(), table: f32(0, 0, 0, 0, 0, 1, 0, 1), token, page_table: u32(0) };
    const caches = { k_cache: new Uint32Array(4), v_cache: new Uint32Array(4) };
    const one = handmade({ ...tensors, ...caches }, turned(4, 0), rotation);
    expect([...oracle('rope_kv_write', one, 'k_cache').values]).toEqual([0, 0, 0, 0, -6, 5, -8, 7]);
    expect([...oracle('rope_kv_write', one, 'v_cache').values]).toEqual([0, 0, 0, 0, 9, 10, 11, 12]);
    const out = oracle('rope_kv_write', one, 'qkv');
    expect([...out.values].slice(0, 4)).toEqual([-2, 1, -4, 3]);
    expect([...(out.unspecified ?? [])].join('')).toBe('000011111111');
  });

  it('attention reads the pages of the slot up to its own position', () => {
    const halves = (...values: number[]) => new Uint32Array(Float16Array.from(values).buffer);
    // Two positions in a page, head_dim 2; slot 0 has pages 1, then 0, and is at position 2.
    const tensors = {
      qkv: f32(1, 0, 0, 0, 0, 0),
      token: u32(0, 2, 0, 0),
      page_table: u32(1, 0),
      k_cache: halves(2, 0, 50, 0, 0, 0, 0, 0),
      v_cache: halves(30, 3, 99, 99, 10, 1, 20, 2),
    };
    const params = { heads: 1, kv_heads: 1, head_dim: 2, max_pages: 2, page: 2, scale: 1 };
    const one = handmade(tensors, params, { tokens: 1 });
    const expected = (10 + 20 + 30 * Math.exp(2)) / (1 + 1 + Math.exp(2));
    expect(oracle('attention', one, 'out').values[0]).toBeCloseTo(expected, 10);
    // Its own position is the last of the window.
    const within = (window: number) => oracle('attention', { ...one, params: { ...params, window } }, 'out');
    expect(within(1).values[0]).toBeCloseTo(30, 10);
    expect(within(2).values[0]).toBeCloseTo((20 + 30 * Math.exp(2)) / (1 + Math.exp(2)), 10);
    expect(within(0).values[0]).toBeCloseTo(expected, 10);
  });

  it('sample counts the sampled token of the slot, only with penalties', () => {
    const record = (slot: number, flags: number) => {
      const words = u32(0, slot, flags, 1, 1, 0, 0, 0, 0, 0, 0, 0);
      return [...words];
    };
    const tensors = {
      samples: u32(...record(2, 2), ...record(0, 1)),
      logits: f32(1, 5, 5, 9, 0, 0),
      seen: new Uint32Array(9).fill(3),
      sampled: u32(7, 7, 7),
    };
    const one = handmade(tensors, { vocabulary: 3 }, { tokens: 2, vocabulary: 3 });
    expect([...oracle('sample', one, 'results').values]).toEqual([1, 0]);
    expect([...oracle('sample', one, 'sampled').values]).toEqual([0, 7, 1]);
    const seen = oracle('sample', one, 'seen');
    expect([...seen.values]).toEqual([3, 3, 3, 3, 3, 3, 3, 4, 3]);
    expect(keptOf(seen)).toBe('111111101');
  });
});

describe('shapes of the resident model', () => {
  const live = (rows: number, columns: number, more = {}): LiveShape => ({
    dims: { tokens: 1, rows, columns, blocks: columns / 32, block_bytes: 34 },
    params: {
      rows,
      blocks: columns / 32,
      x_stride: columns,
      y_stride: rows,
      y_offset: 0,
      has_bias: 0,
      eps: 1e-6,
      ...more,
    },
    format: 'q8_0',
  });
  const liveOf = (op: string, shapes: LiveShape[], list = ['q8_0', 'f16']) =>
    opOf(op)
      .cases({ seed: 1, formats: list, live: shapes })
      .filter(({ name }) => name.startsWith('live'));

  it('occur with one and with several tokens, in their own format', () => {
    const cases = liveOf('matmul', [live(96, 64, { x_stride: 68, y_stride: 200, y_offset: 7, has_bias: 1 })]);
    expect(cases.map(({ format }) => format)).toEqual(['q8_0', 'q8_0', 'q8_0']);
    expect(cases[0]?.dims['tokens']).toBe(1);
    expect(cases[1]?.dims['tokens']).toBeGreaterThan(1);
    for (const { params } of cases) {
      expect(params).toMatchObject({
        rows: 96,
        blocks: 2,
        x_stride: 68,
        y_stride: 200,
        y_offset: 7,
        has_bias: 1,
      });
    }
    expect(liveOf('matvec', [live(96, 64)]).length).toBe(1);
  });

  it('of attention occur up to the end of the context, of all ops with steps of every size', () => {
    const pages = 128;
    const shape = (op: string): LiveShape => ({
      dims: { tokens: 1, heads: 4, kv_heads: 2, head_dim: 16, rotary: 16, context: 1 },
      params: {
        heads: 4,
        kv_heads: 2,
        head_dim: 16,
        max_pages: pages,
        page: 32,
        scale: 0.25,
        window: 0,
        neox: 1,
      },
      ...(op === '' ? { format: op } : {}),
    });
    for (const op of ['attention', 'attention_decode', 'rope', 'kv_write', 'rope_kv_write']) {
      const positions = Array.from({ length: 8 }, (_, seed) =>
        opOf(op)
          .cases({ seed, formats, live: [shape(op)] })
          .filter(({ name }) => name.startsWith('live'))
          .flatMap(({ tensors, dims }) =>
            Array.from(
              { length: dims['tokens'] as number },
              (_unused, t) => (tensors['token'] as Uint32Array)[4 * t + 1] as number,
            ),
          ),
      );
      for (const list of positions) {
        expect(Math.max(...list), op).toBe(pages * 32 - 1);
        expect(
          list.some((position) => position % 32 === 31 && list.includes(position + 1)),
          op,
        ).toBe(true);
      }
      expect(new Set(positions.flat()).size, op).toBeGreaterThan(20);
    }
    const classes = [
      [1, 1],
      [2, 8],
      [9, 16],
      [17, 32],
      [33, 64],
      [65, 127],
      [128, 511],
    ] as const;
    for (const op of ['matmul', 'rms_norm', 'gated_matmul', 'head_norm', 'add']) {
      const sizes = [1, 2].map((seed) =>
        opOf(op)
          .cases({ seed, formats: ['q8_0'] })
          .map(({ dims }) => dims['tokens'] as number),
      );
      for (const [low, high] of classes)
        for (const list of sizes)
          expect(
            list.some((size) => size >= low && size <= high),
            `${op} ${low}`,
          ).toBe(true);
      expect(sizes[0]).not.toEqual(sizes[1]);
    }
  });

  it('truncate a very large matrix, and check a subset of the rows of a large one', () => {
    const [one] = liveOf('norm_gated_matvec', [live(50_001, 4096)]) as [ParityCase];
    const rows = one.params['rows'] as number;
    expect(rows).toBeLessThan(1100);
    expect(rows % 256).toBe(50_001 % 256);
    const { unspecified: open, preserved: kept } = oracle('norm_gated_matvec', one, 'y');
    const checked = Array.from({ length: rows }, (_, row) => open?.[row] === 0 && kept?.[row] === 0);
    expect(checked.filter(Boolean).length).toBeGreaterThan(100);
    expect(checked.filter(Boolean).length).toBeLessThan(rows);
    expect(checked[0] && checked[rows - 1]).toBe(true);
  });

  it('every op supports them', () => {
    const heads = { heads: 4, kv_heads: 2, head_dim: 16, rotary: 16 };
    const table = { max_pages: 3, page: 32, neox: 1, scale: 0.3, window: 20 };
    const shapes: Record<string, LiveShape> = {
      embed: { dims: { vocabulary: 50, columns: 64 }, params: { blocks: 2, scale: 3 } },
      sample: { dims: { vocabulary: 77 }, params: { vocabulary: 77 } },
      head_norm: {
        dims: { count: 2, head_dim: 16 },
        params: { count: 2, head_dim: 16, stride: 96, offset: 64, eps: 1e-6 },
      },
      rms_norm: { dims: { columns: 64 }, params: { columns: 64, eps: 1e-6 } },
      add: { dims: { columns: 64 }, params: { columns: 64 } },
      norm_add: { dims: { columns: 64 }, params: { columns: 64, eps: 1e-6 } },
      gated_activation: { dims: { columns: 44 }, params: { columns: 44, y_stride: 64, activation: 1 } },
    };
    for (const [op, { contract }] of labOps) {
      const own =
        shapes[op] ??
        (contract.covers.includes('matmul') ? live(40, 64) : { dims: heads, params: { ...heads, ...table } });
      const cases = liveOf(op, [own], ['q8_0']);
      expect(cases.length, op).toBeGreaterThan(0);
      for (const one of cases) {
        for (const [name, value] of Object.entries(own.params)) {
          if (name in one.params) expect(one.params[name], `${op} ${name}`).toBe(value);
        }
        expect(Object.keys(opOf(op).oracle(one)).length).toBeGreaterThan(0);
      }
    }
  });
});

describe('descriptors', () => {
  const describeAll = () =>
    [...contracts.values()].map((contract) => describeOp(contract, ['shader-f16', 'x']));

  it('match the contract of every op, and survive JSON', () => {
    for (const descriptor of describeAll()) {
      const contract = contracts.get(descriptor.op);
      expect(labOpsShape.parse(JSON.parse(JSON.stringify({ ops: [descriptor] })))).toEqual({
        ops: [descriptor],
      });
      expect(descriptor).toMatchObject({
        summary: contract?.summary,
        flops: contract?.flops,
        bytes: contract?.bytes,
      });
      expect(descriptor['tolerance']).toEqual(tolerances[contract?.exactness ?? 'f32']);
      const { bindings } = descriptor;
      expect(bindings.map(({ name }) => name)).toEqual(contract?.bindings.map(({ name }) => name));
      expect(bindings.map(({ binding }) => binding)).toEqual(bindings.map((_, index) => index));
      expect(descriptor['features']).toEqual(['shader-f16']);
      expect(descriptor['targets']).toContain('plain');
      expect(descriptor['targets']).not.toContain('subgroups');
      expect(descriptor['oracle']).toMatch(/\w/);
    }
  });

  it('list inputs, outputs and bindings that are both', () => {
    const descriptor = describeOp(contracts.get('matvec_add') as never, []);
    const names = (list: unknown) => (list as { name: string }[]).map(({ name }) => name);
    expect(names(descriptor['inputs'])).toEqual(['quants', 'scales', 'x', 'y', 'bias']);
    expect(names(descriptor['outputs'])).toEqual(['y']);
    expect(descriptor['dispatch']).toEqual({ x: 'ceil(rows / ROWS)', y: 'tokens' });
    expect(descriptor['dtypes']).toEqual(formatNames);
    expect(descriptor['params']).toContainEqual({ name: 'x_stride', type: 'u32', multiple_of: 4 });
  });

  it('list the spans that contain an op', () => {
    const spans = (op: string) => describeOp(contracts.get(op) as never, [])['fusable_into'];
    expect(spans('rms_norm')).toEqual([
      'norm_add',
      'norm_matmul',
      'norm_matvec',
      'norm_gated_matmul',
      'norm_gated_matvec',
    ]);
    expect(spans('rope')).toEqual(['rope_kv_write']);
    expect(spans('add')).toEqual(['norm_add', 'matmul_add', 'matvec_add']);
    expect(spans('norm_matvec')).toEqual(['norm_gated_matvec']);
    expect(spans('gated_matvec')).toEqual(['norm_gated_matvec']);
    expect(spans('head_norm')).toEqual([]);
    expect(spans('sample')).toEqual([]);
  });

  it('tolerances are not wider than specified', () => {
    expect(Object.fromEntries(Object.entries(tolerances).map(([name, { nmse }]) => [name, nmse]))).toEqual({
      f32: 1e-7,
      f16: 1e-6,
      quantised: 5e-4,
      exact: 0,
    });
  });
});
