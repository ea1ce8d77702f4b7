import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { openHuggingFace } from '../../src/engine/formats/hugging-face/index.ts';
import { readSafetensors } from '../../src/engine/formats/hugging-face/safetensors.ts';
import { type ModelFile, ModelFileError } from '../../src/engine/formats/model-file.ts';
import { rowsOf } from '../../src/engine/formats/rows.ts';
import type { ModelFiles } from '../../src/engine/platform.ts';
import { memoryFiles, memorySource } from '../support/byte-source.ts';
import { describeShared } from '../support/shared.ts';
import { readFileSync } from 'node:fs';
import { safetensorsBytes, safetensorsWith, zeros } from '../support/safetensors-writer.ts';
import {
  type Contents,
  json,
  parsed,
  refusalOf,
  tinyFolder,
  weightsOf,
  withConfig,
  withWeights,
} from '../support/tiny-folder.ts';

const llama = tinyFolder('llama');
const index = 'model.safetensors.index.json';
const kQ = 'model.layers.0.self_attn.q_proj.weight';

/** The folder with its tensors in several shards. */
const sharded = (contents: Contents, shardOf: (tensor: string, index: number) => string): Contents => {
  const { 'model.safetensors': _, ...rest } = contents;
  const shards = new Map<string, Record<string, ReturnType<typeof zeros>>>();
  const map: Record<string, string> = {};
  for (const [at, [name, tensor]] of Object.entries(weightsOf(contents)).entries()) {
    const shard = shardOf(name, at);
    map[name] = shard;
    shards.set(shard, { ...shards.get(shard), [name]: tensor });
  }
  const files = [...shards].map(([name, tensors]) => [name, safetensorsBytes(tensors)]);
  return { ...rest, ...Object.fromEntries(files), [index]: json({ weight_map: map }) };
};
const twoShards = sharded(llama, (_, at) => (at % 2 === 0 ? 'a.safetensors' : 'b.safetensors'));

const wholeOf = async (file: ModelFile): Promise<Record<string, Uint8Array>> => {
  const all: Record<string, Uint8Array> = {};
  for (const [name, tensor] of file.tensors) all[name] = await file.readRows(tensor, 0, rowsOf(tensor));
  return all;
};

describe('weights in shards', () => {
  it('give the same values in any number of shards', async () => {
    const expected = await wholeOf(await openHuggingFace(memoryFiles(llama)));
    const count = Object.keys(weightsOf(llama)).length;
    const layout = fc.array(fc.integer({ min: 1, max: 5 }), { minLength: count, maxLength: count });
    await fc.assert(
      fc.asyncProperty(layout, async (shards) => {
        const contents = sharded(llama, (_, at) => `model-0000${shards[at]}-of-00005.safetensors`);
        expect(await wholeOf(await openHuggingFace(memoryFiles(contents)))).toEqual(expected);
      }),
      { numRuns: 20 },
    );
  });

  it('have their total size', async () => {
    const file = await openHuggingFace(memoryFiles(twoShards));
    const sizes = ['a.safetensors', 'b.safetensors'].map((name) => twoShards[name]!.length);
    expect(file.sizeBytes).toBe(sizes[0]! + sizes[1]!);
  });

  it('are all opened when one of them is named', async () => {
    const file = await openHuggingFace(memoryFiles(twoShards, 'b.safetensors'));
    expect([...file.tensors.keys()]).toContain('token_embd.weight');
    expect([...file.tensors.keys()].length).toBe(Object.keys(weightsOf(llama)).length + 1);
  });

  it.each([
    [
      'a missing shard',
      { 'b.safetensors': undefined },
      'not_found',
      /1 of 2 shards are missing: b\.safetensors/,
    ],
    ['an index that is no object', { [index]: json([]) }, 'corrupt', /index\.json must hold a JSON object/],
    ['an index without a map', { [index]: json({}) }, 'corrupt', /has no weight_map/],
    ['an index of nothing', { [index]: json({ weight_map: {} }) }, 'corrupt', /names no tensors/],
    [
      'an index that leads elsewhere',
      { [index]: json({ weight_map: { x: '../x.safetensors' } }) },
      'corrupt',
      /'\.\.\/x\.safetensors' is not the name/,
    ],
    [
      'a cut-off shard',
      { 'b.safetensors': twoShards['b.safetensors']!.slice(0, -1) },
      'truncated',
      /^b\.safetensors: .* tensor '.*' ends at/,
    ],
  ])('refuse %s', async (_, changes, code, message) => {
    const all = Object.entries({ ...twoShards, ...(changes as Record<string, Uint8Array | undefined>) });
    const contents = all.filter((entry): entry is [string, Uint8Array] => entry[1] !== undefined);
    expect(await refusalOf(Object.fromEntries(contents))).toEqual({
      code,
      message: expect.stringMatching(message),
    });
  });

  it('are opened concurrently', async () => {
    const contents = sharded(
      llama,
      (_, at) => `model-${String((at % 12) + 1).padStart(5, '0')}-of-00012.safetensors`,
    );
    const files = memoryFiles(contents);
    let open = 0;
    let maxOpen = 0;
    const slow: ModelFiles = {
      ...files,
      async open(name) {
        open += 1;
        maxOpen = Math.max(maxOpen, open);
        await new Promise((resolve) => setImmediate(resolve));
        open -= 1;
        return files.open(name);
      },
    };
    await (await openHuggingFace(slow)).close();
    expect(maxOpen).toBe(8);
  });

  it('are rejected when the index does not match, naming every tensor', async () => {
    const map = parsed(twoShards[index]).weight_map as Record<string, string>;
    const wrong = { ...map, [kQ]: undefined, 'not.there': 'a.safetensors' };
    const { code, message } = await refusalOf({ ...twoShards, [index]: json({ weight_map: wrong }) });
    expect(code).toBe('corrupt');
    expect(message).toMatch(/'not\.there' is not in a\.safetensors/);
    expect(message).toContain(`'${kQ}' is in `);
  });
});

describe('a folder without its files', () => {
  const without = (...names: string[]) =>
    Object.fromEntries(Object.entries(llama).filter(([name]) => !names.includes(name)));
  it.each([
    ['config.json', /there is no file 'config\.json'/],
    ['model.safetensors', /no weights: neither model\.safetensors nor/],
    ['tokenizer.json', /there is no file 'tokenizer\.json'/],
  ])('says that %s is missing', async (name, message) => {
    expect(await refusalOf(without(name))).toEqual({
      code: 'not_found',
      message: expect.stringMatching(message),
    });
  });

  it('lists weights in other formats in the folder', async () => {
    const { message } = await refusalOf({
      ...without('model.safetensors'),
      'pytorch_model.bin': new Uint8Array(1),
    });
    expect(message).toContain('pytorch_model.bin');
  });

  it.each([
    ['a Git LFS pointer', 'version https://git-lfs.github.com/spec/v1', /Git LFS pointer/],
    ['a web page', '<!doctype html><html>', /a web page/],
    ['half a document', '{"model_type": "lla', /config\.json is not JSON/],
    ['a list', '[1]', /config\.json must hold a JSON object/],
  ])('says that config.json is %s', async (_, text, message) => {
    const refusal = await refusalOf({ ...llama, 'config.json': new TextEncoder().encode(text) });
    expect(refusal).toEqual({ code: 'corrupt', message: expect.stringMatching(message) });
  });
});

describe('a safetensors file', () => {
  const f32 = (begin: number, end: number, elements = (end - begin) / 4) => ({
    dtype: 'F32',
    shape: [elements],
    data_offsets: [begin, end],
  });
  const refusal = async (bytes: Uint8Array) => {
    const error: unknown = await readSafetensors(memorySource(bytes, 'x.safetensors')).then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    if (!(error instanceof ModelFileError)) throw new Error(`not a ModelFileError: ${String(error)}`);
    return { code: error.code, message: error.message };
  };
  const withHeader = (header: unknown, dataBytes: number) =>
    safetensorsWith(typeof header === 'string' ? header : JSON.stringify(header), dataBytes);
  const hugeHeader = safetensorsWith('{}', 4);
  new DataView(hugeHeader.buffer).setBigUint64(0, 1n << 31n, true);
  const longHeader = safetensorsWith('{}', 4);
  new DataView(longHeader.buffer).setBigUint64(0, 1000n, true);

  it.each([
    ['an empty file', new Uint8Array(0), 'truncated', /0 bytes, fewer than a header needs/],
    ['a header beyond the file', longHeader, 'truncated', /its header alone ends at 1008/],
    ['an absurd header', hugeHeader, 'corrupt', /header length of 2147483648 bytes exceeds the limit/],
    ['a header that is not JSON', withHeader('{"a": ', 0), 'corrupt', /the header is not JSON/],
    ['a list', withHeader('[]', 0), 'wrong_magic', /not a safetensors file/],
    [
      'a pointer',
      new TextEncoder().encode('version https://git-lfs.github.com/spec/v1\n'),
      'wrong_magic',
      /Git LFS pointer/,
    ],
    [
      'a name twice',
      withHeader(
        '{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"\\u0061":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}',
        4,
      ),
      'corrupt',
      /tensor 'a' occurs twice/,
    ],
    ['an entry that is none', withHeader({ a: null }, 0), 'corrupt', /tensor 'a' has dtype undefined/],
    [
      'a shape that is none',
      withHeader({ a: { ...f32(0, 4), shape: [-1] } }, 4),
      'corrupt',
      /'a' has shape \[-1\]/,
    ],
    [
      'one offset',
      withHeader({ a: { ...f32(0, 4), data_offsets: [0] } }, 4),
      'corrupt',
      /data_offsets \[0\], not two/,
    ],
    [
      'a range backwards',
      withHeader({ a: { ...f32(0, 4), data_offsets: [4, 0] } }, 4),
      'corrupt',
      /not a range/,
    ],
    [
      'a tensor larger than its place',
      withHeader({ a: f32(0, 8, 3) }, 8),
      'corrupt',
      /'a' is F32 \[3\] and needs 12 bytes, but has 8/,
    ],
    [
      'overlapping tensors',
      withHeader({ a: f32(0, 8), b: f32(4, 12) }, 12),
      'corrupt',
      /'a' and tensor 'b' overlap/,
    ],
    [
      'a gap',
      withHeader({ a: f32(0, 4), b: f32(8, 12) }, 12),
      'corrupt',
      /the 4 bytes between tensor 'a' and tensor 'b'/,
    ],
    [
      'data before the first',
      withHeader({ a: f32(4, 8) }, 8),
      'corrupt',
      /between the header and tensor 'a'/,
    ],
    ['data behind the last', withHeader({ a: f32(0, 4) }, 5), 'corrupt', /1 bytes follow tensor 'a'/],
    ['missing data', withHeader({ a: f32(0, 8) }, 7), 'truncated', /tensor 'a' ends at/],
  ])('is refused with %s', async (_, bytes, code, message) => {
    const found = await refusal(bytes);
    expect(found).toEqual({ code, message: expect.stringMatching(message) });
    expect(found.message).toMatch(/^x\.safetensors: /);
  });

  it('accepts tensor names that equal format keywords', async () => {
    const tensors = {
      data_offsets: zeros('F32', [1], 4),
      'a":{"': zeros('I8', [], 1),
      shape: zeros('BF16', [0, 3], 2),
    };
    const read = await readSafetensors(memorySource(safetensorsBytes(tensors)));
    expect([...read.keys()].sort()).toEqual(['a":{"', 'data_offsets', 'shape']);
  });

  it('with flipped bytes in its header either opens or is refused', async () => {
    const bytes = llama['model.safetensors']!.slice();
    const flips = fc.array(fc.tuple(fc.nat({ max: 2000 }), fc.integer({ min: 1, max: 255 })), {
      minLength: 1,
      maxLength: 4,
    });
    await fc.assert(
      fc.asyncProperty(flips, async (changes) => {
        const damaged = bytes.slice();
        for (const [at, mask] of changes) damaged[at] = damaged[at]! ^ mask;
        await readSafetensors(memorySource(damaged)).catch((error: unknown) => {
          if (!(error instanceof ModelFileError)) throw error;
        });
      }),
      { numRuns: 500 },
    );
  });
});

const fixtures = ['1d-int32', '2d-float64', '3d-float32', '4d-float32'].map(
  (name) => `data/safetensors/tensor-${name}.safetensors`,
);
describeShared('files that other writers made', fixtures, (...paths) => {
  it('are read', async () => {
    const tables = await Promise.all(
      paths.map(async (path) => [
        ...(await readSafetensors(memorySource(new Uint8Array(readFileSync(path))))).values(),
      ]),
    );
    expect(tables.map(([tensor]) => [tensor?.name, tensor?.dtype, tensor?.shape.length])).toEqual([
      ['embedding', 'I32', 1],
      ['embedding', 'F64', 2],
      ['embedding', 'F32', 3],
      ['embedding', 'F32', 4],
    ]);
  });
});

describe('tensors that do not belong to the model', () => {
  it.each([
    ['I32', 4],
    ['F64', 8],
    ['F8_E4M3', 1],
  ])('are refused as %s, naming it', async (dtype, bytes) => {
    const contents = withWeights(llama, { [kQ]: zeros(dtype, [64, 64], bytes) });
    expect(await refusalOf(contents)).toEqual({
      code: 'unsupported_type',
      message: expect.stringContaining(`'${kQ}' is ${dtype}: supported: F32, F16, BF16`),
    });
  });

  it.each([
    ['unknown', 'model.layers.0.self_attn.q_proj.lora_A.weight'],
    ['of a layer too many', 'model.layers.2.self_attn.q_proj.weight'],
    ['neither weight nor bias', 'model.layers.0.self_attn.q_proj.scales'],
  ])('are refused where they are %s', async (_, name) => {
    const { code, message } = await refusalOf(withWeights(llama, { [name]: zeros('F32', [2, 2], 4) }));
    expect(code).toBe('unsupported_tensors');
    expect(message).toContain(name);
  });

  it('are rejected when two map to the same name', async () => {
    const { code, message } = await refusalOf(withWeights(llama, { 'norm.weight': zeros('F32', [64], 4) }));
    expect(code).toBe('bad_tensors');
    expect(message).toMatch(/maps to output_norm\.weight, as another tensor does/);
  });

  it('are rejected when the heads do not divide their rows', async () => {
    const { code, message } = await refusalOf(withWeights(llama, { [kQ]: zeros('F32', [60, 64], 4) }));
    expect({ code, message }).toEqual({
      code: 'bad_tensors',
      message: expect.stringContaining(`'${kQ}' has 60 rows, not a multiple of 2 * 4 heads`),
    });
  });

  it('are ignored when they are computed buffers or a tied output matrix', async () => {
    const tied = withConfig(llama, { tie_word_embeddings: true });
    const file = await openHuggingFace(
      memoryFiles(
        withWeights(tied, { 'model.layers.0.self_attn.rotary_emb.inv_freq': zeros('I64', [4], 8) }),
      ),
    );
    expect([...file.tensors.keys()].filter((name) => /inv_freq|^output\./.test(name))).toEqual([]);
    const bert = tinyFolder('bert');
    const ids = {
      'embeddings.position_ids': zeros('I64', [1, 128], 8),
      'cls.predictions.bias': zeros('F32', [9], 4),
    };
    const plain = await openHuggingFace(memoryFiles(bert));
    const more = await openHuggingFace(memoryFiles(withWeights(bert, ids)));
    expect([...more.tensors.keys()].sort()).toEqual([...plain.tensors.keys()].sort());
  });

  it('are reported as missing when the output matrix is neither stored nor tied', async () => {
    const { code, message } = await refusalOf(withWeights(llama, { 'lm_head.weight': undefined }));
    expect(code).toBe('bad_tensors');
    expect(message).toContain("no tensor 'lm_head.weight'");
  });
});

describe('rows', () => {
  it('are the same in pieces of any size, into any buffer', async () => {
    const file = await openHuggingFace(memoryFiles(llama));
    const whole = await wholeOf(file);
    const piece = fc.tuple(fc.nat(), fc.nat(), fc.nat(), fc.nat({ max: 9 }));
    await fc.assert(
      fc.asyncProperty(piece, async ([which, from, many, shift]) => {
        const tensor = [...file.tensors.values()][which % file.tensors.size]!;
        const first = from % rowsOf(tensor);
        const rows = many % (rowsOf(tensor) - first + 1);
        const rowBytes = tensor.sizeBytes / rowsOf(tensor);
        const place = new Uint8Array(rows * rowBytes + 20).subarray(shift);
        const read = await file.readRows(tensor, first, rows, place);
        expect(read).toEqual(whole[tensor.name]!.subarray(first * rowBytes, (first + rows) * rowBytes));
        expect(read.buffer).toBe(place.buffer);
        expect(await file.readRows(tensor, first, rows)).toEqual(read);
      }),
      { numRuns: 200 },
    );
  });

  it('outside the tensor throw RangeError', async () => {
    const file = await openHuggingFace(memoryFiles(llama));
    const tensor = file.tensors.get('blk.0.attn_q.weight')!;
    await expect(file.readRows(tensor, 60, 5)).rejects.toThrow(/are outside tensor 'blk\.0\.attn_q\.weight'/);
    await expect(file.readRows({ ...tensor, name: 'other' }, 0, 1)).rejects.toThrow(/no tensor 'other'/);
  });

  it('of q and k and their biases are interleaved', async () => {
    // 4 heads of 16 rows: row 2i is row i of its head, row 2i + 1 is row i + 8.
    const values = Float32Array.from({ length: 64 }, (_, row) => row);
    const bias = { dtype: 'F32', shape: [64], data: new Uint8Array(values.buffer) };
    const file = await openHuggingFace(
      memoryFiles(withWeights(llama, { 'model.layers.0.self_attn.q_proj.bias': bias })),
    );
    const read = await file.readRows(file.tensors.get('blk.0.attn_q.bias')!, 0, 1);
    expect([...new Float32Array(read.slice().buffer).subarray(16, 22)]).toEqual([16, 24, 17, 25, 18, 26]);
  });

  it('of half-precision vectors are converted to F32', async () => {
    const halves = Float16Array.from({ length: 64 }, (_, i) => i / 3);
    const norm = { dtype: 'F16', shape: [64], data: new Uint8Array(halves.buffer) };
    const file = await openHuggingFace(memoryFiles(withWeights(llama, { 'model.norm.weight': norm })));
    const tensor = file.tensors.get('output_norm.weight')!;
    expect(tensor).toMatchObject({ type: 'F32', sizeBytes: 256 });
    const read = (await file.readRows(tensor, 0, 1)).slice();
    expect(new Float32Array(read.buffer)).toEqual(Float32Array.from(halves));
  });
});
