import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { globals } from 'webgpu';
import { weightFormats } from '../../kernels/formats.ts';
import { bf16FromNumber, f16FromNumber, quantize, type WeightType } from '../../kernels/reference/index.ts';
import type { ModelFile, TensorInfo } from '../../src/engine/formats/model-file.ts';
import { BufferPool } from '../../src/engine/gpu/buffers.ts';
import { readVector, repack, WeightLoader } from '../../src/engine/weights.ts';
import { random, randomValues } from '../support/kernel-harness.ts';

Object.assign(globalThis, globals);
const types = Object.keys(weightFormats) as WeightType[];

/** A device that only remembers what was written where, as strict about sizes as WebGPU. */
class RecordingDevice {
  readonly contents = new Map<object, Uint8Array<ArrayBuffer>>();
  readonly queue = {
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
    const raw = quantize(type, randomValues(rows * columns, next));
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
  it('moves the scales of quantised blocks apart and keeps everything else as it is', () => {
    for (const type of ['Q8_0', 'Q4_0'] as const) {
      const { quantBytesPerBlock } = weightFormats[type];
      const raw = quantize(type, randomValues(3 * 64, random(1)));
      const { quants, scales } = repack(type, raw, 3, 64);
      const blockBytes = quantBytesPerBlock + 2;
      const bytes = new Uint8Array(quants.buffer, quants.byteOffset, quants.byteLength);
      for (let block = 0; block < 6; block++) {
        const from = block * blockBytes;
        const scale = (raw[from] as number) | ((raw[from + 1] as number) << 8);
        expect(scales?.[block]).toBe(scale);
        expect(bytes.slice(block * quantBytesPerBlock, (block + 1) * quantBytesPerBlock)).toEqual(
          raw.slice(from + 2, from + blockBytes),
        );
      }
    }
  });

  it('reads bytes at any alignment', () => {
    const raw = quantize('Q8_0', randomValues(64, random(2)));
    const shifted = new Uint8Array(raw.length + 1);
    shifted.set(raw, 1);
    expect(repack('Q8_0', shifted.subarray(1), 1, 64)).toEqual(repack('Q8_0', raw, 1, 64));
  });

  it('fills the rows of plain types with zeros to whole blocks', () => {
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

  it('lays matrices below each other in parts that a binding can hold, every row where it belongs', async () => {
    await fc.assert(
      fc.asyncProperty(
        matrices,
        fc.integer({ min: 1, max: 3 }),
        fc.integer({ min: 1, max: 30 }),
        async (list, blocks, rowsHeld) => {
          const columns = blocks * 32;
          const { file, raws } = fileOf(list, columns, rowsHeld);
          const device = new RecordingDevice();
          const pool = device.pool();
          // The widest type needs 128 bytes a block.
          const maxBindingBytes = rowsHeld * blocks * 128;
          let read = 0;
          const loader = new WeightLoader(file, pool, {
            maxBindingBytes,
            onBytes: (bytes) => (read += bytes),
          });
          const stack = loader.allocate(list.map((_, index) => `w${index}`));
          await loader.fill(stack);

          // What every row of the stack must be.
          const rows = list.flatMap(({ type, rows: count }, index) => {
            const raw = raws.get(`w${index}`) as Uint8Array;
            const rowBytes = raw.length / count;
            return Array.from({ length: count }, (_, row) => ({
              format: weightFormats[type],
              packed: repack(type, raw.slice(row * rowBytes, (row + 1) * rowBytes), 1, columns),
            }));
          });
          let next = 0;
          for (const part of stack.parts) {
            expect(part.firstRow).toBe(next);
            expect(part.blocks).toBe(blocks);
            const quants = device.contents.get(part.quants) as Uint8Array;
            const scales = device.contents.get(part.scales) as Uint8Array;
            for (let row = 0; row < part.rows; row++) {
              const { format, packed } = rows[next++] as (typeof rows)[number];
              expect(part.format).toBe(format.name);
              const bytes = blocks * format.quantBytesPerBlock;
              expect(part.rows * bytes).toBeLessThanOrEqual(maxBindingBytes);
              expect(quants.slice(row * bytes, (row + 1) * bytes)).toEqual(
                new Uint8Array(packed.quants.buffer, packed.quants.byteOffset, packed.quants.byteLength),
              );
              const at = row * blocks * 2;
              if (packed.scales) {
                expect(new Uint16Array(scales.slice(at, at + blocks * 2).buffer)).toEqual(packed.scales);
              }
            }
          }
          expect(next).toBe(rows.length);
          expect(read).toBe([...raws.values()].reduce((sum, raw) => sum + raw.length, 0));
        },
      ),
      { numRuns: 60 },
    );
  });

  it('matrices of one type share a part, and need no more parts than they must', () => {
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

describe('a row that no binding can hold', () => {
  it('is refused by its name', () => {
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
    // A view into something larger, as a reader may hand out.
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

  it('refuses a quantised one by its name', async () => {
    const file = fileWith('Q8_0', quantize('Q8_0', new Float32Array(32)), 32);
    await expect(readVector(file, 'v')).rejects.toThrow('v is Q8_0');
    await expect(readVector(file, 'other')).rejects.toThrow('other is not in the file');
  });
});
