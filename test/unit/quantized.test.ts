import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { quantize } from '../../kernels/reference/dequantize.ts';
import {
  type ModelFile,
  ModelFileError,
  type TensorInfo,
  tensorTypes,
} from '../../src/engine/formats/model-file.ts';
import { quantizeModelFile } from '../../src/engine/formats/quantize-model-file.ts';
import { bytesOfRow, rowsOf } from '../../src/engine/formats/rows.ts';
import { type MemorySource, memorySource, openSource } from '../support/byte-source.ts';
import { ggufBytes, type GgufTensor } from '../support/gguf-writer.ts';

const types = (name: string) =>
  new Uint8Array(
    readFileSync(fileURLToPath(new URL(`../fixtures/architectures/types/${name}.gguf`, import.meta.url))),
  );
const wholeOf = (file: ModelFile, tensor: TensorInfo) => file.readRows(tensor, 0, rowsOf(tensor));

/** Values that every unquantised type holds exactly. */
const random = (elements: number, seed = 1): Float32Array => {
  let state = seed;
  return Float32Array.from({ length: elements }, () => {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31;
    return ((state >> 16) % 256) / 64 - 2;
  });
};
const tensor = (name: string, type: 'F32' | 'F16' | 'BF16' | 'Q8_0', shape: number[]): GgufTensor => ({
  name,
  type,
  shape,
  data: () =>
    quantize(
      type,
      random(
        shape.reduce((product, extent) => product * extent, 1),
        shape[0],
      ),
    ),
});
const modelOf = async (...tensors: GgufTensor[]): Promise<{ file: ModelFile; source: MemorySource }> => {
  const source = memorySource(ggufBytes({ metadata: [], tensors }));
  return { file: await openSource(source), source };
};
/** The fixtures' weights are bfloat16 values, so their upper halves are all of them. */
const cutToBf16 = (file: ModelFile): ModelFile => ({
  ...file,
  tensors: new Map(
    [...file.tensors].map(([name, info]) => {
      const matrix = info.shape.length > 1;
      return [name, matrix ? { ...info, type: 'BF16', sizeBytes: info.sizeBytes / 2 } : info];
    }),
  ),
  async readRows(info, first, rows) {
    const bytes = await file.readRows(file.tensors.get(info.name)!, first, rows);
    if (info.type !== 'BF16') return bytes;
    const words = new Uint32Array(bytes.slice().buffer);
    return new Uint8Array(Uint16Array.from(words, (word) => word >>> 16).buffer);
  },
});
const typesOf = (file: ModelFile) =>
  Object.fromEntries([...file.tensors].map(([name, { type }]) => [name, type]));

describe.each(['Q8_0', 'Q4_0'] as const)('a model quantised to %s while it is read', (type) => {
  it.each(['F32', 'F16', 'BF16'])(
    'from %s is what llama-quantize makes of it, byte for byte',
    async (stored) => {
      const wide = await openSource(memorySource(types(stored === 'F16' ? 'F16' : 'F32')));
      const ours = quantizeModelFile(stored === 'BF16' ? cutToBf16(wide) : wide, type);
      const theirs = await openSource(memorySource(types(type)));
      expect(typesOf(ours)).toEqual(typesOf(theirs));
      for (const [name, info] of theirs.tensors) {
        const mine = ours.tensors.get(name)!;
        expect(mine).toMatchObject({ shape: info.shape, sizeBytes: info.sizeBytes });
        // F16 lacks the range of BF16: small values differ there.
        if (stored !== 'F16')
          expect([name, await wholeOf(ours, mine)]).toEqual([name, await wholeOf(theirs, info)]);
      }
    },
  );
});

describe('quantising while reading', () => {
  it('gives the same bytes in pieces of any size, into any place', async () => {
    const { file } = await modelOf(tensor('a.weight', 'BF16', [37, 96]));
    const ours = quantizeModelFile(file, 'Q8_0');
    const info = ours.tensors.get('a.weight')!;
    const whole = await wholeOf(ours, info);
    const rowBytes = bytesOfRow(info);
    await fc.assert(
      fc.asyncProperty(
        fc.nat({ max: 36 }),
        fc.nat({ max: 37 }),
        fc.nat({ max: 5 }),
        async (first, many, shift) => {
          const rows = Math.min(many, 37 - first);
          const place = new Uint8Array(rows * rowBytes + 9).subarray(shift);
          const read = await ours.readRows(info, first, rows, place);
          expect(read).toEqual(whole.subarray(first * rowBytes, (first + rows) * rowBytes));
          expect(read.buffer).toBe(place.buffer);
        },
      ),
    );
    await expect(ours.readRows(info, 37, 1)).rejects.toThrow(/are outside tensor 'a\.weight'/);
  });

  it('never holds a whole matrix of the file', async () => {
    const { file, source } = await modelOf(tensor('a.weight', 'F32', [1024, 1024]));
    const ours = quantizeModelFile(file, 'Q4_0');
    const before = source.bytesRead;
    await wholeOf(ours, ours.tensors.get('a.weight')!);
    expect(source.bytesRead - before).toBe(4 << 20);
    expect(source.largestRead).toBeLessThanOrEqual(1 << 20);
  });

  it('leaves vectors, positions and what is quantised as they are', async () => {
    const { file } = await modelOf(
      tensor('a.weight', 'F32', [2, 32]),
      tensor('norm.weight', 'F32', [64]),
      tensor('position_embd.weight', 'F32', [4, 32]),
      tensor('token_types.weight', 'F32', [2, 32]),
      tensor('b.weight', 'Q8_0', [2, 64]),
    );
    const ours = quantizeModelFile(file, 'Q4_0');
    expect(typesOf(ours)).toEqual({ ...typesOf(file), 'a.weight': 'Q4_0' });
    for (const name of ['norm.weight', 'b.weight']) {
      expect(await wholeOf(ours, ours.tensors.get(name)!)).toEqual(
        await wholeOf(file, file.tensors.get(name)!),
      );
    }
    expect(ours.notes).toEqual([]);
  });

  it('rounds the matrices of experts, but neither what chooses them nor their biases', async () => {
    const { file } = await modelOf(
      tensor('blk.0.ffn_up_exps.weight', 'BF16', [3, 4, 64]),
      tensor('blk.0.ffn_up_exps.bias', 'F32', [3, 32]),
      tensor('blk.0.ffn_gate_inp.weight', 'F32', [3, 64]),
    );
    const ours = quantizeModelFile(file, 'Q4_0');
    expect(typesOf(ours)).toEqual({ ...typesOf(file), 'blk.0.ffn_up_exps.weight': 'Q4_0' });
    const experts = ours.tensors.get('blk.0.ffn_up_exps.weight')!;
    expect(experts).toMatchObject({ shape: [3, 4, 64], sizeBytes: 3 * 4 * 2 * 18 });
    expect(await wholeOf(ours, experts)).toEqual(quantize('Q4_0', random(3 * 4 * 64, 3)));
    const last = await ours.readRows(experts, 11, 1);
    expect(last).toEqual((await wholeOf(ours, experts)).subarray(11 * 36));
  });

  it('keeps or widens rows that the type cannot have, and tells', async () => {
    const { file } = await modelOf(
      tensor('a.weight', 'F32', [2, 256]),
      tensor('b.weight', 'F32', [2, 96]),
      tensor('c.weight', 'BF16', [2, 40]),
      tensor('d.weight', 'BF16', [2, 40]),
    );
    const ours = quantizeModelFile(file, 'Q4_K');
    expect(typesOf(ours)).toEqual({
      'a.weight': 'Q4_K',
      'b.weight': 'Q8_0',
      'c.weight': 'BF16',
      'd.weight': 'BF16',
    });
    expect(ours.notes).toEqual([
      'b.weight: Q8_0 instead of Q4_K, because rows of 96 weights are not a multiple of 256',
      'c.weight, d.weight: kept as BF16, because rows of 40 weights are not a multiple of 32',
    ]);
    const read = (name: string) => wholeOf(ours, ours.tensors.get(name)!);
    expect(await read('a.weight')).toEqual(quantize('Q4_K', random(512, 2)));
    expect(await read('b.weight')).toEqual(quantize('Q8_0', random(192, 2)));
  });

  it('to Q4_K keeps what makes the logits finer', async () => {
    const embedding = tensor('token_embd.weight', 'F32', [3, 256]);
    const tied = await modelOf(embedding, tensor('a.weight', 'F32', [2, 256]));
    expect(typesOf(quantizeModelFile(tied.file, 'Q4_K'))).toEqual({
      'token_embd.weight': 'Q8_0',
      'a.weight': 'Q4_K',
    });
    const untied = await modelOf(embedding, tensor('output.weight', 'F32', [3, 256]));
    const ours = quantizeModelFile(untied.file, 'Q4_K');
    expect(typesOf(ours)).toEqual({ 'token_embd.weight': 'Q4_K', 'output.weight': 'Q8_0' });
    expect(ours.notes).toEqual([expect.stringMatching(/^output\.weight: .*logits/)]);
    expect(typesOf(quantizeModelFile(untied.file, 'Q4_0'))['output.weight']).toBe('Q4_0');
  });

  it('says so when there is nothing to quantise', async () => {
    const done = await modelOf(tensor('a.weight', 'Q8_0', [2, 32]), tensor('norm.weight', 'F32', [64]));
    const error = () => quantizeModelFile(done.file, 'Q4_0');
    expect(error).toThrow(ModelFileError);
    expect(error).toThrow(
      /^test\.gguf: nothing to quantize to q4_0: its tensors are Q8_0, F32; load the model without quantizing it/,
    );
    const narrow = await modelOf(tensor('a.weight', 'F16', [2, 40]));
    expect(() => quantizeModelFile(narrow.file, 'Q8_0')).toThrow(
      /q8_0: a\.weight: kept as F16, because rows of 40/,
    );
  });

  it('closes the file', async () => {
    const { file, source } = await modelOf(tensor('a.weight', 'F32', [2, 32]));
    await quantizeModelFile(file, 'Q8_0').close();
    expect(source.closed).toBe(true);
  });

  it('has the size of what it presents', async () => {
    const { file } = await modelOf(tensor('a.weight', 'F32', [3, 512]));
    for (const type of ['Q8_0', 'Q4_0'] as const) {
      const { blockElements, blockBytes } = tensorTypes[type];
      const size = ((3 * 512) / blockElements) * blockBytes;
      expect(quantizeModelFile(file, type).tensors.get('a.weight')?.sizeBytes).toBe(size);
    }
  });
});
