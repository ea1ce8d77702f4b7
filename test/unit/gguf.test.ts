import { mkdtemp, open, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { dequantize } from '../../kernels/reference/index.ts';
import { openModelFile } from '../../src/engine/formats/open-model-file.ts';
import { tensorTypes } from '../../src/engine/formats/model-file.ts';
import { nodePlatform } from '../../src/platform/node.ts';
import { memorySource, openSource } from '../support/byte-source.ts';
import {
  bool,
  f32,
  type GgufType,
  type GgufValue,
  ggufBytes,
  scalar,
  scalars,
  text,
  texts,
  u32,
} from '../support/gguf-writer.ts';
import { realShapes, writeRandomModel } from '../support/random-model.ts';
import { modelsPath } from '../support/shared.ts';

const weights = (name: string, type: GgufType, shape: number[], bytes: number) => ({
  name,
  type,
  shape,
  data: () => Uint8Array.from({ length: bytes }, (_, index) => (index * 7 + name.length) & 255),
});

/** MLC's own blocks have no number in GGUF. */
const tensorTypeNames = (Object.keys(tensorTypes) as GgufType[]).filter((type) => !type.startsWith('MLC_'));

describe('the embedded model', () => {
  it('opens with its metadata, and the tensors have numpy shapes and lie in the file', async () => {
    const model = await openModelFile(await nodePlatform().modelFiles(modelsPath('lathe-tiny-q8_0.gguf')));
    expect(model.metadata.get('general.architecture')).toBe('llama');
    expect(model.metadata.get('llama.context_length')).toBe(1024);
    expect(model.metadata.get('tokenizer.ggml.tokens')).toHaveLength(2048);
    expect(model.metadata.get('tokenizer.ggml.token_type')).toBeInstanceOf(Int32Array);
    expect(model.tensors.get('token_embd.weight')).toMatchObject({ type: 'Q8_0', shape: [2048, 256] });
    expect(model.tensors.get('blk.0.ffn_down.weight')).toMatchObject({ shape: [256, 768] });
    expect(model.tensors.get('output_norm.weight')).toMatchObject({
      type: 'F32',
      shape: [256],
      sizeBytes: 1024,
    });
    await model.close();
  });
});

describe('metadata', () => {
  const metadataOf = async (metadata: [string, GgufValue][], version = 3) =>
    (await openSource(memorySource(ggufBytes({ metadata, tensors: [], version })))).metadata;

  it.each([2, 3])('every value type of version %i is read as written', async (version) => {
    const found = await metadataOf(
      [
        ['u8', scalar('u8', 255)],
        ['i8', scalar('i8', -128)],
        ['u16', scalar('u16', 65535)],
        ['i16', scalar('i16', -32768)],
        ['u32', u32(4294967295)],
        ['i32', scalar('i32', -2147483648)],
        ['f32', f32(0.5)],
        ['f64', scalar('f64', 0.1)],
        ['bool', bool(true)],
        ['string', text('žluťoučký 🐎')],
        ['small u64', scalar('u64', 2n ** 53n - 1n)],
        ['large u64', scalar('u64', 2n ** 64n - 1n)],
        ['small i64', scalar('i64', -5n)],
        ['large i64', scalar('i64', -(2n ** 63n))],
        ['u8s', scalars('u8', [1, 255])],
        ['i16s', scalars('i16', [-1, 2, 3])],
        ['f32s', scalars('f32', [0.5, -1])],
        ['u64s', scalars('u64', [1n, 2n ** 64n - 1n])],
        ['bools', scalars('bool', [true, false, true])],
        ['none', scalars('f64', [])],
        ['arrays', { type: 'array', of: 'array', value: [scalars('u16', [1, 2]), texts(['x'])] }],
      ],
      version,
    );
    expect(Object.fromEntries(found)).toEqual({
      u8: 255,
      i8: -128,
      u16: 65535,
      i16: -32768,
      u32: 4294967295,
      i32: -2147483648,
      f32: 0.5,
      f64: 0.1,
      bool: true,
      string: 'žluťoučký 🐎',
      'small u64': 2 ** 53 - 1,
      'large u64': 2n ** 64n - 1n,
      'small i64': -5,
      'large i64': -(2n ** 63n),
      u8s: Uint8Array.of(1, 255),
      i16s: Int16Array.of(-1, 2, 3),
      f32s: Float32Array.of(0.5, -1),
      u64s: BigUint64Array.of(1n, 2n ** 64n - 1n),
      bools: [true, false, true],
      none: new Float64Array(0),
      arrays: [Uint16Array.of(1, 2), ['x']],
    });
  });

  it('strings keep a leading byte-order mark and empty ones: tokens may be either', async () => {
    const tokens = ['\uFEFF', '', '\uFEFFa', '\0'];
    expect((await metadataOf([['tokens', texts(tokens)]])).get('tokens')).toEqual(tokens);
  });

  it('string arrays of any length are read across chunk boundaries', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.string({ unit: 'grapheme', maxLength: 40 }), { maxLength: 300 }),
        async (values) => {
          // Pushes the array across the 1 MiB window's end.
          const filler = 'f'.repeat((1 << 20) - 1500);
          const found = await metadataOf([
            ['filler', text(filler)],
            ['values', texts(values)],
          ]);
          expect(found.get('values')).toEqual(values.map((value) => value.toWellFormed()));
        },
      ),
      { numRuns: 40 },
    );
  });

  it('a vocabulary of 250,000 strings is read once, in few chunks', async () => {
    const tokens = Array.from({ length: 250_000 }, (_, id) => `token${id}Ġé`);
    const source = memorySource(ggufBytes({ metadata: [['tokens', texts(tokens)]], tensors: [] }));
    const model = await openSource(source);
    expect(model.metadata.get('tokens')).toEqual(tokens);
    // The whole header is read once, in chunks of at most 4 MiB.
    expect(source.bytesRead).toBeLessThan(source.sizeBytes + 100);
    // Reads grow to 4 MiB, so that a header of 6 MB takes a handful of requests over HTTP.
    expect(source.largestRead).toBeLessThanOrEqual(4 << 20);
  });
});

describe('tensors', () => {
  const tensors = [
    weights('a', 'F32', [3, 5], 60),
    weights('b', 'F16', [2, 3, 7], 84),
    weights('c', 'BF16', [9], 18),
    weights('d', 'Q8_0', [4, 64], 4 * 68),
    weights('e', 'Q4_0', [5, 96], 5 * 54),
  ];

  it.each([1, 32, 64, 4096])('rows are read as written, with alignment %i', async (alignment) => {
    const model = await openSource(memorySource(ggufBytes({ metadata: [], tensors, alignment })));
    for (const { name, type, shape, data } of tensors) {
      const info = model.tensors.get(name);
      if (!info) throw new Error(`no tensor ${name}`);
      expect(info).toMatchObject({ name, type, shape });
      expect(info.offset % alignment).toBe(0);
      const rows =
        shape.length === 1 ? 1 : shape.slice(0, -1).reduce((product, extent) => product * extent, 1);
      const rowBytes = info.sizeBytes / rows;
      expect(await model.readRows(info, 0, rows)).toEqual(data());
      expect(await model.readRows(info, rows - 1, 1)).toEqual(data().subarray(-rowBytes));
      const into = new Uint8Array(rowBytes + 3);
      const view = await model.readRows(info, 0, 1, into);
      expect(view).toHaveLength(rowBytes);
      expect(view.buffer).toBe(into.buffer);
      await expect(model.readRows(info, rows, 1)).rejects.toThrow(RangeError);
    }
  });

  it('opening reads the header only', async () => {
    const big = weights('big', 'F32', [2048, 2048], 4 << 22);
    const source = memorySource(ggufBytes({ metadata: [], tensors: [big] }));
    await openSource(source);
    expect(source.bytesRead).toBeLessThan(2 << 20);
  });
});

describe('a model of random weights', () => {
  it.each(tensorTypeNames)(
    'has finite weights of the asked-for size in %s, and a seed gives it again',
    async (type) => {
      const folder = await mkdtemp(join(tmpdir(), 'lathe-random-'));
      try {
        const shape = {
          ...realShapes.qwen3_06b,
          layers: 1,
          embedding: 256,
          heads: 2,
          kvHeads: 1,
          headSize: 128,
          feedForward: 512,
          vocab: 300,
          type,
        };
        const [first, again] = [join(folder, 'a.gguf'), join(folder, 'b.gguf')];
        await writeRandomModel(first, shape);
        await writeRandomModel(again, shape);
        expect(await readFile(first)).toEqual(await readFile(again));
        const model = await openModelFile(await nodePlatform().modelFiles(first));
        expect(model.metadata.get('general.architecture')).toBe('qwen3');
        const down = model.tensors.get('blk.0.ffn_down.weight');
        if (!down) throw new Error('no tensor');
        expect(down).toMatchObject({ type, shape: [256, 512] });
        const values = dequantize(type, await model.readRows(down, 0, 256), 256 * 512);
        const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
        const power = values.reduce((sum, value) => sum + value * value, 0) / values.length;
        // The values are about 1 / sqrt(columns), on both sides of zero.
        expect(Math.sqrt(power * 512)).toBeGreaterThan(0.3);
        expect(Math.sqrt(power * 512)).toBeLessThan(3);
        expect(Math.abs(mean)).toBeLessThan(0.3 * Math.sqrt(power));
        await model.close();
      } finally {
        await rm(folder, { recursive: true, force: true });
      }
    },
  );
});

describe('a file larger than 4 GiB', () => {
  const sizeBytes = 5 * 2 ** 30;
  let folder = '';
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'lathe-gguf-'));
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  it('is read at its end, and never completely', async () => {
    const path = join(folder, 'large.gguf');
    const columns = 4096;
    const first = {
      name: 'first',
      type: 'F16' as const,
      shape: [sizeBytes / 2 / columns, columns],
      data: () => new Uint8Array(),
    };
    const last = { name: 'last', type: 'F32' as const, shape: [2, 4], data: () => new Uint8Array() };
    // The header is written as for a whole file; the data is a hole but for the last tensor.
    const { length } = ggufBytes({ metadata: [], tensors: [{ ...first, shape: [1, columns] }, last] });
    const headerBytes = length - 32 - columns * 2;
    const header = ggufBytes({
      metadata: [],
      tensors: [{ ...first, shape: [1, columns] }, last],
      lies: {
        dimensions: { first: [BigInt(columns), BigInt(sizeBytes / 2 / columns)] },
        offsets: { last: BigInt(sizeBytes) },
      },
    }).subarray(0, headerBytes);
    const handle = await open(path, 'w');
    await handle.write(header, 0, header.length, 0);
    await handle.write(
      new Uint8Array(Float32Array.of(1, 2, 3, 4, 5, 6, 7, 8).buffer),
      0,
      32,
      headerBytes + sizeBytes,
    );
    await handle.close();

    const before = process.memoryUsage().arrayBuffers;
    const model = await openModelFile(await nodePlatform().modelFiles(path));
    const info = model.tensors.get('last');
    if (!info) throw new Error('no tensor');
    expect(info.offset).toBe(headerBytes + sizeBytes);
    const row = await model.readRows(info, 1, 1);
    expect([...new Float32Array(row.slice().buffer)]).toEqual([5, 6, 7, 8]);
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(8 << 20);
    await model.close();
  });
});
