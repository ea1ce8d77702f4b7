import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { globals } from 'webgpu';
import { quantSizeBytes, scaleSizeBytes, type WeightFormat, weightFormats } from '../../kernels/formats.ts';
import { bf16FromNumber, f16FromNumber, quantize, type WeightType } from '../../kernels/reference/index.ts';
import type { ModelFile, TensorInfo } from '../../src/engine/formats/model-file.ts';
import { BufferPool } from '../../src/engine/gpu/buffers.ts';
import type { Graph } from '../../src/engine/graph/graph.ts';
import { repack } from '../../src/engine/loading/repack.ts';
import type { BoundBuffer, PlanContext } from '../../src/engine/execution/plan-context.ts';
import { slicedPartsOf, type SlicedPart } from '../../src/engine/execution/weight-slices.ts';
import { readVector, weightBytes, WeightLoader } from '../../src/engine/loading/weights.ts';
import { random, randomValues } from '../support/kernel-harness.ts';
import { sampleRows, wholeColumns } from '../support/random-blocks.ts';

Object.assign(globalThis, globals);
const types = Object.keys(weightFormats) as WeightType[];

/** A device that only records writes, with the size rules of WebGPU. */
class RecordingDevice {
  readonly contents = new Map<object, Uint8Array<ArrayBuffer>>();
  readonly limits = { minStorageBufferOffsetAlignment: 256 };
  readonly queue = {
    submit() {},
    writeBuffer: (buffer: object, offset: number, data: ArrayBufferView | ArrayBuffer) => {
      const bytes = ArrayBuffer.isView(data)
        ? new Uint8Array(data.buffer, data.byteOffset, data.byteLength)
        : new Uint8Array(data);
      expect(offset % 4, 'offset in whole words').toBe(0);
      expect(bytes.length % 4, 'size in whole words').toBe(0);
      this.contents.get(buffer)?.set(bytes, offset);
    },
  };
  createBuffer({ size, label }: { size: number; label: string }): object {
    const buffer = { size, label };
    this.contents.set(buffer, new Uint8Array(size));
    return buffer;
  }
  createCommandEncoder() {
    return {
      copyBufferToBuffer: (from: object, offset: number, to: object, at: number, size: number) => {
        expect(offset % 4, 'offset in whole words').toBe(0);
        expect(size % 4, 'size in whole words').toBe(0);
        const source = this.contents.get(from) as Uint8Array;
        expect(offset + size).toBeLessThanOrEqual(source.length);
        this.contents.get(to)?.set(source.subarray(offset, offset + size), at);
      },
      finish: () => ({}),
    };
  }
  /** The contents that a shader reads. */
  read(bound: BoundBuffer): Uint8Array {
    if (!('buffer' in bound)) return this.contents.get(bound) as Uint8Array;
    const { buffer, offset = 0, size = 0 } = bound;
    expect(size % 16, 'whole 16-byte words').toBe(0);
    const contents = this.contents.get(buffer) as Uint8Array;
    expect(offset + size).toBeLessThanOrEqual(contents.length);
    return contents.subarray(offset, offset + size);
  }
  pool(): BufferPool {
    return new BufferPool(this as unknown as GPUDevice);
  }
}

interface Matrix {
  type: WeightType;
  rows: number;
}

/** Matrices of one width in a file. */
function fileOf(matrices: readonly Matrix[], columns: number, seed: number) {
  const next = random(seed);
  const raws = new Map<string, Uint8Array<ArrayBuffer>>();
  const tensors = new Map<string, TensorInfo>();
  for (const [index, { type, rows }] of matrices.entries()) {
    const name = `w${index}`;
    const raw = sampleRows(type, { rows, columns }, next);
    raws.set(name, raw);
    tensors.set(name, { name, type, shape: [rows, columns], offset: 0, sizeBytes: raw.length });
  }
  const file: ModelFile = {
    format: 'gguf',
    name: 'memory',
    sizeBytes: 0,
    metadata: new Map(),
    tensors,
    async readRows(tensor, first, rows) {
      const rowBytes = tensor.sizeBytes / (tensor.shape[0] ?? 1);
      return (raws.get(tensor.name) as Uint8Array).slice(first * rowBytes, (first + rows) * rowBytes);
    },
    async close() {},
  };
  return { file, raws };
}

describe('repack', () => {
  it('reads bytes at any alignment', () => {
    for (const type of types) {
      const raw = sampleRows(type, { rows: 1, columns: 256 }, random(2));
      const shifted = new Uint8Array(raw.length + 1);
      shifted.set(raw, 1);
      const packed = repack(type, raw, 1, 256);
      expect(repack(type, shifted.subarray(1), 1, 256), type).toEqual({
        ...packed,
        ...(packed.quants === raw ? { quants: shifted.subarray(1) } : {}),
      });
    }
  });

  it('pads the rows of plain types with zeros to whole blocks', () => {
    for (const type of ['F32', 'F16', 'BF16'] as const) {
      const size = type === 'F32' ? 4 : 2;
      const raw = quantize(type, randomValues(2 * 33, random(3)));
      const { quants, scales } = repack(type, raw, 2, 33);
      expect(scales).toBeUndefined();
      const bytes = new Uint8Array(quants.buffer, quants.byteOffset, quants.byteLength);
      const expected = new Uint8Array(2 * 64 * size);
      for (const row of [0, 1])
        expected.set(raw.slice(row * 33 * size, (row + 1) * 33 * size), row * 64 * size);
      expect(bytes).toEqual(expected);
    }
  });
});

describe('WeightLoader', () => {
  const matrices = fc.array(
    fc.record({ type: fc.constantFrom(...types), rows: fc.integer({ min: 1, max: 20 }) }),
    { minLength: 1, maxLength: 4 },
  );

  it('stacks matrices in parts that fit a binding, with every row in place', async () => {
    await fc.assert(
      fc.asyncProperty(
        matrices,
        fc.integer({ min: 1, max: 3 }),
        fc.integer({ min: 1, max: 30 }),
        async (list, width, rowsHeld) => {
          // Rows of K types and of IQ4_XS are whole blocks of 256.
          const blocks = list.some(({ type }) => wholeColumns(type, 32) > 32) ? 8 * width : width;
          const columns = blocks * 32;
          const { file, raws } = fileOf(list, columns, rowsHeld);
          const device = new RecordingDevice();
          const pool = device.pool();
          // The widest type needs 128 bytes for each block.
          const maxBindingBytes = rowsHeld * blocks * 128;
          let read = 0;
          const loader = new WeightLoader(file, pool, {
            maxBindingBytes,
            onBytes: (bytes) => (read += bytes),
          });
          const stack = loader.allocate(list.map((_, index) => `w${index}`));
          await loader.load([stack]);

          let next = 0;
          const all = list.flatMap(({ type, rows }, index) =>
            Array.from({ length: rows }, (_, row) => ({ type, row, rows, raw: raws.get(`w${index}`) })),
          );
          for (const part of stack.parts) {
            expect(part.firstRow).toBe(next);
            expect(part.blocks).toBe(blocks);
            const own = all.slice(next, next + part.rows);
            next += part.rows;
            const { type } = own[0] as (typeof all)[number];
            const format: WeightFormat = weightFormats[type];
            expect(part.format).toBe(format.name);
            expect(own.every((one) => one.type === type)).toBe(true);
            expect(quantSizeBytes(format, part)).toBeLessThanOrEqual(maxBindingBytes);
            expect(scaleSizeBytes(format, part)).toBeLessThanOrEqual(maxBindingBytes);
            // The part must equal its rows repacked at once.
            const together = own.map(({ raw, row, rows }) => {
              const bytes = (raw?.length ?? 0) / rows;
              return raw?.subarray(row * bytes, (row + 1) * bytes) ?? new Uint8Array(0);
            });
            const packed = repack(type, new Uint8Array(Buffer.concat(together)), part.rows, columns);
            for (const [name, words] of [
              ['quants', packed.quants],
              ['scales', packed.scales ?? new Uint8Array(0)],
            ] as const) {
              const expected = new Uint8Array(words.buffer, words.byteOffset, words.byteLength);
              expect(device.contents.get(part[name])?.slice(0, expected.length), name).toEqual(expected);
            }
          }
          expect(next).toBe(all.length);
          expect(read).toBe([...raws.values()].reduce((sum, raw) => sum + raw.length, 0));
        },
      ),
      { numRuns: 60 },
    );
  });

  it('matrices of one type share a part, with no more parts than needed', () => {
    const list: Matrix[] = [
      { type: 'Q8_0', rows: 10 },
      { type: 'Q8_0', rows: 5 },
      { type: 'F16', rows: 4 },
      { type: 'Q8_0', rows: 3 },
    ];
    const { file } = fileOf(list, 32, 1);
    const names = ['w0', 'w1', 'w2', 'w3'];
    const partsFor = (maxBindingBytes: number) =>
      new WeightLoader(file, new RecordingDevice().pool(), { maxBindingBytes, onBytes() {} })
        .allocate(names)
        .parts.map(({ format, firstRow, rows }) => [format, firstRow, rows]);
    expect(partsFor(2 ** 20)).toEqual([
      ['q8_0', 0, 15],
      ['f16', 15, 4],
      ['q8_0', 19, 3],
    ]);
    expect(partsFor(8 * 32)).toEqual([
      ['q8_0', 0, 8],
      ['q8_0', 8, 7],
      ['f16', 15, 4],
      ['q8_0', 19, 3],
    ]);
  });
});

describe('matrices of experts', () => {
  const { file } = fileOf([{ type: 'Q8_0', rows: 7 * 10 }], 64, 1);
  const flat = file.tensors.get('w0') as TensorInfo;
  const tensors = new Map([['w0', { ...flat, shape: [7, 10, 64] }]]);
  const loaderFor = (maxBindingBytes: number) =>
    new WeightLoader({ ...file, tensors }, new RecordingDevice().pool(), { maxBindingBytes, onBytes() {} });
  const partsFor = (maxBindingBytes: number) =>
    loaderFor(maxBindingBytes)
      .allocate(['w0'])
      .parts.map(({ firstRow, rows }) => [firstRow, rows]);

  it('are split only between experts', () => {
    const expertBytes = 10 * 64;
    expect(partsFor(7 * expertBytes)).toEqual([[0, 70]]);
    expect(partsFor(7 * expertBytes - 1)).toEqual([
      [0, 60],
      [60, 10],
    ]);
    expect(partsFor(3.9 * expertBytes)).toEqual([
      [0, 30],
      [30, 30],
      [60, 10],
    ]);
  });

  it('are rejected when a single expert does not fit', () => {
    expect(() => partsFor(10 * 64 - 1)).toThrow(
      'an expert of tensor w0 is larger than a binding may be (639 bytes)',
    );
  });
});

describe('rows of a stack', () => {
  it('are bound as if they were separate, in every format', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...types),
        fc.integer({ min: 1, max: 9 }),
        fc.nat(20),
        fc.integer({ min: 1, max: 20 }),
        async (type, width, skipped, rows) => {
          const columns = wholeColumns(type, 32 * width);
          const { file, raws } = fileOf([{ type, rows: 41 }], columns, width);
          const device = new RecordingDevice();
          const pool = device.pool();
          const loader = new WeightLoader(file, pool, { maxBindingBytes: 2 ** 27, onBytes() {} });
          const stack = loader.allocate(['w0']);
          await loader.load([stack]);
          const context = { gpu: { device }, pool } as unknown as PlanContext;
          const slice = () => slicedPartsOf(context, stack, { first: skipped, rows });
          const { scaleGroup }: WeightFormat = weightFormats[type];
          if (!scaleGroup.restartsEachRow && (skipped * (columns / 32)) % scaleGroup.blocks !== 0) {
            expect(slice).toThrow(
              `rows from ${skipped} on begin within a group of ${scaleGroup.blocks} scales`,
            );
            return;
          }
          const [part] = slice();
          expect(part).toMatchObject({ firstRow: skipped, rows, blocks: columns / 32 });
          const raw = raws.get('w0') as Uint8Array;
          const rowBytes = raw.length / 41;
          const own = raw.slice(skipped * rowBytes, (skipped + rows) * rowBytes);
          const packed = repack(type, own, rows, columns);
          const got = device.read((part as SlicedPart).quants);
          const { buffer, byteOffset, byteLength } = packed.quants;
          expect(got.slice(0, byteLength)).toEqual(new Uint8Array(buffer, byteOffset, byteLength));
          if (!packed.scales) return;
          const scales = new Uint32Array(device.read((part as SlicedPart).scales).slice().buffer);
          // The last group may include blocks of the next row.
          const whole = packed.scales.length - scaleGroup.bytes / 4;
          expect(scales.slice(0, whole)).toEqual(packed.scales.slice(0, whole));
          for (let i = whole; i < packed.scales.length; i++) {
            const [word = 0, expected = 0] = [scales[i], packed.scales[i]];
            expect(word & expected).toBe(expected | 0);
          }
        },
      ),
      { numRuns: 300 },
    );
  });
});

describe('weightBytes', () => {
  it("is within a tenth of the file's size, and equals what is allocated, for every type", () => {
    for (const type of types) {
      // An even row count: buffers are whole 16-byte words.
      const { file, raws } = fileOf([{ type, rows: 64 }], 1280, 1);
      const units = [{ op: 'matmul', weights: ['w0'] }];
      const bytes = weightBytes(file, { units } as unknown as Graph);
      const raw = raws.get('w0')?.length ?? 0;
      expect(Math.abs(bytes / raw - 1), `${type}: ${bytes} of ${raw}`).toBeLessThan(0.1);
      const pool = new RecordingDevice().pool();
      new WeightLoader(file, pool, { maxBindingBytes: 2 ** 27, onBytes() {} }).allocate(['w0']);
      expect(pool.bytes - bytes, type).toBe(['F32', 'F16', 'BF16'].includes(type) ? 16 : 0);
    }
  });
});

describe('a row that fits no binding', () => {
  it('is rejected with its name', () => {
    const { file } = fileOf([{ type: 'F32', rows: 2 }], 64, 1);
    const loader = new WeightLoader(file, new RecordingDevice().pool(), {
      maxBindingBytes: 255,
      onBytes() {},
    });
    expect(() => loader.allocate(['w0'])).toThrow('a row of tensor w0 is larger');
  });
});

describe('readVector', () => {
  const fileWith = (type: WeightType, bytes: Uint8Array<ArrayBuffer>, length: number): ModelFile => {
    const { file } = fileOf([{ type: 'F32', rows: 1 }], 32, 1);
    const tensor: TensorInfo = { name: 'v', type, shape: [length], offset: 0, sizeBytes: bytes.length };
    // A view into a larger buffer, as a reader may return.
    const larger = new Uint8Array(bytes.length + 6);
    larger.set(bytes, 6);
    return { ...file, tensors: new Map([['v', tensor]]), readRows: async () => larger.subarray(6) };
  };

  it('reads F32, F16 and BF16 as f32', async () => {
    const values = Float32Array.of(1, -0.5, 3.25, 2 ** -14);
    const halves = Uint16Array.from(values, f16FromNumber);
    const brains = Uint16Array.from(values, bf16FromNumber);
    expect(await readVector(fileWith('F32', new Uint8Array(values.buffer), 4), 'v')).toEqual(values);
    expect(await readVector(fileWith('F16', new Uint8Array(halves.buffer), 4), 'v')).toEqual(values);
    expect(await readVector(fileWith('BF16', new Uint8Array(brains.buffer), 4), 'v')).toEqual(values);
  });

  it('rejects a quantized tensor, naming it', async () => {
    const file = fileWith('Q8_0', quantize('Q8_0', new Float32Array(32)), 32);
    await expect(readVector(file, 'v')).rejects.toThrow("tensor 'v' is Q8_0");
    await expect(readVector(file, 'other')).rejects.toThrow("tensor 'other' is not in the file");
  });
});
