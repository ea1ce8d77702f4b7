import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { verifyModel, digestOf } from '../../src/engine/loading/digest.ts';
import { firstNonFinite } from '../../src/engine/loading/finite.ts';
import { decodeFloats } from '../../src/engine/formats/float-bytes.ts';
import { type TensorType, tensorTypes } from '../../src/engine/formats/model-file.ts';
import { openModelFile } from '../../src/engine/formats/open-model-file.ts';
import { nodePlatform } from '../../src/platform/node.ts';
import { filesOf, memoryFiles, memorySource } from '../support/byte-source.ts';
import { folderContents } from '../support/folder-contents.ts';
import { splitGguf } from '../support/gguf-split-writer.ts';
import { type GgufFile, type GgufTensor, ggufBytes, scalar, text } from '../support/gguf-writer.ts';
import { fixtureNames } from '../support/fixture-names.ts';
import { random } from '../support/kernel-harness.ts';
import { mlcFolder } from '../support/mlc-writer.ts';
import { sampleRows } from '../support/random-blocks.ts';
import { modelsPath } from '../support/shared.ts';
import { tinyFolder, weightsOf, withWeights } from '../support/tiny-folder.ts';

const platform = nodePlatform();
const root = fileURLToPath(new URL('../fixtures/architectures/', import.meta.url));
const floats = (name: string, shape: number[], first = 0): GgufTensor => ({
  name,
  type: 'F32',
  shape,
  data: () =>
    new Uint8Array(
      Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, (_, at) => at + first).buffer,
    ),
});
const model: GgufFile = {
  metadata: [
    ['general.architecture', text('llama')],
    ['general.name', text('x')],
  ],
  tensors: [floats('b', [4, 8]), floats('a', [8]), floats('c', [2, 3, 4])],
};
const digestOfFile = async (file: GgufFile): Promise<string> =>
  digestOf(platform, await openModelFile(memoryFiles({ 'm.gguf': ggufBytes(file) }, 'm.gguf')));

describe('the digest of a model', () => {
  it('covers architecture and weights, independent of container, order, alignment and metadata', async () => {
    const digest = await digestOfFile(model);
    expect(digest).toMatch(/^sha256:[0-9a-f]{64}$/);
    expect(await digestOfFile({ ...model, tensors: [...model.tensors].reverse(), alignment: 256 })).toBe(
      digest,
    );
    const metadata = [...model.metadata, ['general.quantization_version', scalar('u32', 2)] as const];
    expect(await digestOfFile({ ...model, metadata, version: 2 })).toBe(digest);
    const parts = memoryFiles(splitGguf('m', model, 3), 'm-00002-of-00003.gguf');
    expect(await digestOf(platform, await openModelFile(parts))).toBe(digest);
    const half: GgufTensor = {
      name: 'a',
      type: 'F16',
      shape: [8],
      data: () => new Uint8Array(Float16Array.from({ length: 8 }, (_, at) => at).buffer),
    };
    expect(
      await digestOfFile({ ...model, tensors: [floats('b', [4, 8]), half, floats('c', [2, 3, 4])] }),
    ).toBe(digest);
  });

  it('differs for another architecture, name, shape, type or weight', async () => {
    const changes: GgufFile[] = [
      { ...model, metadata: [['general.architecture', text('qwen2')]] },
      { ...model, tensors: [floats('B', [4, 8]), floats('a', [8]), floats('c', [2, 3, 4])] },
      { ...model, tensors: [floats('b', [8, 4]), floats('a', [8]), floats('c', [2, 3, 4])] },
      { ...model, tensors: [floats('b', [4, 8], 1), floats('a', [8]), floats('c', [2, 3, 4])] },
      { ...model, tensors: [floats('b', [4, 8]), floats('a', [8], 1), floats('c', [2, 3, 4])] },
      { ...model, tensors: model.tensors.slice(1) },
      model,
    ];
    const digests = await Promise.all(changes.map(digestOfFile));
    const file = await openModelFile(memoryFiles({ 'm.gguf': ggufBytes(model) }, 'm.gguf'));
    digests.push(await digestOf(platform, file, 'Q8_0'), await digestOf(platform, file, 'Q4_K'));
    expect(new Set(digests).size).toBe(changes.length + 2);
  });

  const digestOfFiles = async (contents: Record<string, Uint8Array>, entry?: string): Promise<string> =>
    digestOf(platform, await openModelFile(memoryFiles(contents, entry)));
  const digestOfConversion = (name: string) => digestOfFiles(folderContents(`${root}${name}`), 'model.gguf');

  it.each(fixtureNames)('of the folder of %s equals that of its GGUF conversion', async (name) => {
    expect(await digestOfFiles(tinyFolder(name))).toBe(await digestOfConversion(name));
  });

  it('of a sharded folder equals that of its GGUF conversion', async () => {
    expect(await digestOfFiles(folderContents(`${root}qwen3/hf-sharded`))).toBe(
      await digestOfConversion('qwen3'),
    );
  });

  /** The folder with all weights in another type, as transformers saves them. */
  const savedAs = (name: string, dtype: 'BF16' | 'F16' | 'F32') => {
    const folder = tinyFolder(name);
    if (dtype === 'BF16') return folder;
    const weights = Object.entries(weightsOf(folder)).map(([tensor, { shape, data }]) => {
      const values = new Float32Array(data.length / 2);
      decodeFloats('BF16', data, values);
      const kept = dtype === 'F16' ? Float16Array.from(values) : values;
      return [tensor, { dtype, shape, data: new Uint8Array(kept.buffer) }];
    });
    return withWeights(folder, Object.fromEntries(weights));
  };

  it.each([
    ['q0f16', 'F16', false],
    ['q0f32', 'F32', false],
    // As MLC stores it by default: the upper halves of the values.
    ['q0f32', 'BF16', true],
  ] as const)(
    'of an MLC folder in %s equals that of the folder in %s',
    async (quantization, dtype, cutFloats) => {
      for (const name of ['llama', 'qwen2']) {
        const compiled = mlcFolder(savedAs(name, dtype), { quantization, cutFloats });
        expect(await digestOfFiles(compiled)).toBe(await digestOfFiles(savedAs(name, dtype)));
      }
    },
  );

  it('reads the file once, in chunks', async () => {
    const source = memorySource(new Uint8Array(readFileSync(modelsPath('lathe-tiny-q8_0.gguf'))));
    const file = await openModelFile(filesOf({ m: source }, 'm'));
    const before = source.bytesRead;
    await digestOf(platform, file);
    expect(source.bytesRead - before).toBeLessThan(source.sizeBytes);
    expect(source.largestRead).toBeLessThanOrEqual(4 << 20);
  });
});

describe('infinite and NaN values', () => {
  const scaleBytes: Readonly<Record<TensorType, readonly number[]>> = {
    F32: [0],
    F16: [0],
    BF16: [0],
    Q8_0: [0],
    Q4_0: [0],
    Q4_1: [0, 2],
    Q5_0: [0],
    Q5_1: [0, 2],
    Q2_K: [80, 82],
    Q3_K: [108],
    Q4_K: [0, 2],
    Q5_K: [0, 2],
    Q6_K: [208],
    IQ4_NL: [0],
    IQ4_XS: [0],
    MXFP4: [0],
    MLC_Q4F32: [0],
    MLC_Q3F16: [0],
  };
  const bits = (type: TensorType): number[] => {
    if (type === 'MXFP4') return [0xff];
    if (type === 'F32' || type === 'MLC_Q4F32') return [0, 0, 0x80, 0x7f];
    return type === 'BF16' ? [0xc0, 0xff] : [0, 0xfc];
  };

  it.each(Object.keys(tensorTypes) as TensorType[])(
    'are found in any block of %s, without false positives',
    (type) => {
      const { blockBytes } = tensorTypes[type];
      fc.assert(
        fc.property(fc.integer({ min: 1, max: 40 }), fc.nat(), fc.nat(), (blocks, where, which) => {
          // All ones except for the small scales: quants must not be mistaken for NaN.
          const bytes = new Uint8Array(blocks * blockBytes).fill(blockBytes > 4 ? 0xff : 1);
          for (let block = 0; block < blocks; block++) {
            for (const at of scaleBytes[type])
              bytes.fill(1, block * blockBytes + at, block * blockBytes + at + bits(type).length);
          }
          expect(firstNonFinite(type, bytes)).toBe(-1);
          const block = where % blocks;
          const scale = scaleBytes[type][which % scaleBytes[type].length] ?? 0;
          bytes.set(bits(type), block * blockBytes + scale);
          expect(firstNonFinite(type, bytes)).toBe(block);
          // At an odd address as well.
          const shifted = new Uint8Array(bytes.length + 1);
          shifted.set(bytes, 1);
          expect(firstNonFinite(type, shifted.subarray(1))).toBe(block);
        }),
        { numRuns: 40 },
      );
    },
  );

  it('are reported with tensor and row, once for each tensor', async () => {
    const damaged = (name: string, shape: number[], at: number[]): GgufTensor => ({
      ...floats(name, shape),
      data: () => {
        const values = new Float32Array(shape.reduce((a, b) => a * b, 1));
        for (const one of at) values[one] = Number.NaN;
        return new Uint8Array(values.buffer);
      },
    });
    const file = {
      ...model,
      tensors: [damaged('m', [5, 8], [19, 33]), damaged('v', [8], [3]), floats('ok', [2, 8])],
    };
    const opened = await openModelFile(memoryFiles({ 'm.gguf': ggufBytes(file) }, 'm.gguf'));
    const { bad, digest } = await verifyModel(platform, opened);
    expect(bad).toEqual([
      { name: 'm', row: 2 },
      { name: 'v', row: 0 },
    ]);
    expect(digest).toBe(await digestOf(platform, opened));
  });

  it.each([
    ['IQ4_NL', [0, 0x7e]],
    ['IQ4_NL', [0, 0xfc]],
    ['IQ4_XS', [1, 0x7c]],
    ['MXFP4', [0xff]],
  ] as const)('are found in %s with a scale of %o, in the row of its block', async (type, scale) => {
    const data = () => {
      const bytes = sampleRows(type, { rows: 5, columns: 512 }, random(3));
      bytes.set(scale, 4 * (bytes.length / 5) - tensorTypes[type].blockBytes);
      return bytes;
    };
    const file = { ...model, tensors: [{ name: 'm', type, shape: [5, 512], data }, floats('ok', [2, 8])] };
    const opened = await openModelFile(memoryFiles({ 'm.gguf': ggufBytes(file) }, 'm.gguf'));
    expect((await verifyModel(platform, opened)).bad).toEqual([{ name: 'm', row: 3 }]);
  });
});
