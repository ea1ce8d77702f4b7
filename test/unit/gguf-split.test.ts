import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ModelFileError } from '../../src/engine/formats/model-file.ts';
import { openModelFile } from '../../src/engine/formats/open-model-file.ts';
import { filesOf, memoryFiles, memorySource } from '../support/byte-source.ts';
import { splitGguf, splitPartName } from '../support/gguf-split-writer.ts';
import { type GgufFile, type GgufTensor, ggufBytes, scalar, text } from '../support/gguf-writer.ts';

const tensor = (name: string, rows: number): GgufTensor => ({
  name,
  type: 'F32',
  shape: [rows, 8],
  data: () =>
    new Uint8Array(Float32Array.from({ length: rows * 8 }, (_, at) => at * 3 + name.length + rows).buffer),
});
const whole: GgufFile = {
  metadata: [
    ['general.architecture', text('llama')],
    ['general.name', text('model')],
  ],
  tensors: Array.from({ length: 7 }, (_, index) => tensor(`blk.${index}.w`, index + 1)),
};
const name = (part: number, count = 3) => splitPartName('sub/model', part, count);
const set = (count = 3, file = whole) => splitGguf('sub/model', file, count);

const refusal = async (parts: Readonly<Record<string, Uint8Array>>, entry = name(2)): Promise<string> => {
  const error = await openModelFile(memoryFiles(parts, entry)).catch((thrown: unknown) => thrown);
  if (!(error instanceof ModelFileError)) throw new Error(`not refused as a file: ${String(error)}`);
  expect(error.code).toBe('split');
  return error.message;
};

describe('a split GGUF', () => {
  it.each([1, 2, 3])(
    'opens completely by part %i, with the metadata of the first part and the tensors of all',
    async (part) => {
      const model = await openModelFile(memoryFiles(set(), name(part)));
      expect(model.metadata.get('general.name')).toBe('model');
      expect([...model.tensors.keys()]).toEqual(whole.tensors.map((one) => one.name));
      for (const { name: one, data, shape } of whole.tensors) {
        const info = model.tensors.get(one);
        expect(info?.shape).toEqual(shape);
        expect(info && (await model.readRows(info, 0, shape[0] ?? 0))).toEqual(data());
      }
      expect(model.sizeBytes).toBe(Object.values(set()).reduce((sum, { length }) => sum + length, 0));
    },
  );

  it('has the rows of the file it was split from, however it was split', async () => {
    const one = await openModelFile(memoryFiles({ 'm.gguf': ggufBytes(whole) }, 'm.gguf'));
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 7 }), fc.nat(6), fc.nat(6), async (count, at, first) => {
        const model = await openModelFile(memoryFiles(set(count), name(1, count)));
        const key = `blk.${at}.w`;
        const [own, merged] = [model.tensors.get(key), one.tensors.get(key)];
        if (!own || !merged) throw new Error('no tensor');
        const row = first % (at + 1);
        expect(await model.readRows(own, row, at + 1 - row)).toEqual(
          await one.readRows(merged, row, at + 1 - row),
        );
        await expect(model.readRows(own, row, at + 2 - row)).rejects.toThrow(RangeError);
      }),
      { numRuns: 40 },
    );
  });

  it('is the only model in a folder that is given as the path', async () => {
    const model = await openModelFile(memoryFiles({ ...set(), 'README.md': new Uint8Array(3) }));
    expect(model.tensors.size).toBe(7);
  });

  it('closes every part, also when one of them is refused', async () => {
    const open = (parts: Readonly<Record<string, Uint8Array>>) =>
      Object.fromEntries(Object.entries(parts).map(([key, bytes]) => [key, memorySource(bytes, key)]));
    const good = open(set());
    await (await openModelFile(filesOf(good, name(2)))).close();
    const bad = open({ ...set(), [name(3)]: new Uint8Array(50) });
    await expect(openModelFile(filesOf(bad, name(2)))).rejects.toThrow(ModelFileError);
    for (const source of [...Object.values(good), ...Object.values(bad)]) expect(source.closed).toBe(true);
  });

  it('reads only headers when it is opened', async () => {
    const big = { ...whole, tensors: whole.tensors.map(({ name: one }) => tensor(one, 100_000)) };
    const sources = Object.entries(set(3, big)).map(
      ([key, bytes]) => [key, memorySource(bytes, key)] as const,
    );
    await openModelFile(filesOf(Object.fromEntries(sources), name(1)));
    for (const [, source] of sources) expect(source.bytesRead).toBeLessThan(2 << 20);
  });
});

describe('a split GGUF that is not whole', () => {
  it('is refused naming every missing part at once', async () => {
    const parts = set(4);
    const message = await refusal({ [name(3, 4)]: parts[name(3, 4)] ?? new Uint8Array() }, name(3, 4));
    for (const part of [1, 2, 4]) expect(message).toContain(name(part, 4));
    expect(message).toMatch(/3 of the 4 parts .* are missing.*one folder, or pull/);
  });

  it('is refused when a part was renamed, or a whole file is called a part', async () => {
    const parts = set();
    expect(await refusal({ ...parts, [name(1)]: parts[name(3)] ?? new Uint8Array() })).toMatch(
      /00001-of-00003\.gguf: the file name says part 1 of 3 .* its metadata says part 3 of 3/,
    );
    expect(await refusal({ ...parts, [name(2)]: ggufBytes(whole) })).toMatch(
      /its metadata says that it is a whole file/,
    );
    expect(await refusal({ 'x.gguf': parts[name(2)] ?? new Uint8Array() }, 'x.gguf')).toMatch(
      /part 2 of 3 of a split model.*use the original file names/,
    );
    // A wrong part count in a file name does not open that many files.
    expect(await refusal({ [name(2, 99_999)]: parts[name(2)] ?? new Uint8Array() }, name(2, 99_999))).toMatch(
      /the file name says part 2 of 99999/,
    );
  });

  it('is refused when a part is of another model', async () => {
    const other = set(3, { ...whole, tensors: whole.tensors.slice(0, 5) });
    expect(await refusal({ ...set(), [name(3)]: other[name(3)] ?? new Uint8Array() })).toMatch(
      /do not belong to one model: .*split\.tensors\.count 5, but the first part has 7/,
    );
    expect(await refusal({ ...set(), [name(2)]: set()[name(1)] ?? new Uint8Array() }, name(1))).toMatch(
      /metadata says part 1 of 3/,
    );
    const twice = splitGguf('sub/model', whole, 3, {
      [2]: [tensor('blk.0.w', 1)],
    });
    expect(await refusal(twice)).toMatch(/tensor 'blk\.0\.w' is in .*00001-of-00003\.gguf and in .*00003-of/);
    const foreign = splitGguf('sub/model', whole, 3, {}, [['general.architecture', text('qwen2')]]);
    expect(await refusal({ ...set(), [name(2)]: foreign[name(2)] ?? new Uint8Array() })).toMatch(
      /general\.architecture.*qwen2.*llama|general\.architecture.*llama.*qwen2/,
    );
  });

  it('is rejected when the total number of tensors is wrong', async () => {
    const parts = splitGguf('sub/model', whole, 3, { [1]: [] });
    expect(await refusal(parts)).toMatch(/the parts have 4 tensors in total, but the first part says 7/);
  });

  it('with random split numbers opens or is rejected with ModelFileError', async () => {
    const values = fc.oneof(
      fc.constant(undefined),
      fc.integer({ min: -3, max: 5 }).map((value) => scalar('i32', value)),
      fc.constant(text('3')),
      fc.constant(scalar('u64', 2n ** 64n - 1n)),
    );
    await fc.assert(
      fc.asyncProperty(fc.nat(2), values, values, values, async (at, no, count, sum) => {
        const key = name(at + 1);
        const lies = Object.entries({ 'split.no': no, 'split.count': count, 'split.tensors.count': sum });
        const bytes = ggufBytes({
          metadata: lies.flatMap(([label, value]) => (value ? [[label, value] as const] : [])),
          tensors: whole.tensors.slice(0, 2),
        });
        const files = memoryFiles({ ...set(), [key]: bytes }, key);
        await openModelFile(files).catch((error: unknown) => {
          if (!(error instanceof ModelFileError)) throw error;
        });
      }),
      { numRuns: 200 },
    );
  });
});
