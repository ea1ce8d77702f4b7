/** Files that say what no model has: refused with a reason, at once, without the memory that they ask for. */
import { describe, expect, it } from 'vitest';
import { openModelFile } from '../../src/engine/formats/open-model-file.ts';
import { readShardFiles } from '../../src/engine/formats/mlc/tensor-cache.ts';
import { type Metadata, type ModelFile, ModelFileError } from '../../src/engine/formats/model-file.ts';
import { quantizeModelFile } from '../../src/engine/formats/quantize-model-file.ts';
import { buildGraph } from '../../src/engine/models/registry.ts';
import type { QuantizeType } from '../../src/engine/types.ts';
import { memoryFiles, memorySource, openSource } from '../support/byte-source.ts';
import { type GgufFile, ggufBytes, scalar, text } from '../support/gguf-writer.ts';
import { mlcFolder } from '../support/mlc-writer.ts';
import { safetensorsWith } from '../support/safetensors-writer.ts';
import { json, parsed, refusalOf, tinyFolder, withConfig, withWeights } from '../support/tiny-folder.ts';
import { type TinyModel, tinyModel } from '../support/tiny-model.ts';

const refusalOfGguf = async (bytes: Uint8Array): Promise<{ code: string; message: string }> => {
  const error: unknown = await openSource(memorySource(bytes)).catch((thrown: unknown) => thrown);
  if (!(error instanceof ModelFileError)) throw new Error(`not a ModelFileError: ${String(error)}`);
  return { code: error.code, message: error.message };
};

describe('numbers of a GGUF file', () => {
  /** The file with metadata of its architecture changed; undefined takes an entry away. */
  const changed = async (
    architecture: TinyModel['architecture'],
    changes: Readonly<Record<string, unknown>>,
  ): Promise<ModelFile> => {
    const file = await openSource(memorySource(tinyModel({ architecture })));
    const metadata = new Map<string, unknown>(file.metadata);
    for (const [key, value] of Object.entries(changes)) {
      if (value === undefined) metadata.delete(`${architecture}.${key}`);
      else metadata.set(`${architecture}.${key}`, value);
    }
    return { ...file, metadata: metadata as Metadata };
  };
  const yarn = { 'rope.scaling.type': 'yarn', 'rope.scaling.factor': 4 };

  it.each([
    ['llama', { block_count: 1e9 }, 'block_count 1000000000 is more than the 20 tensors of the file'],
    ['llama', { block_count: Number.POSITIVE_INFINITY }, 'must be a number, got Infinity'],
    ['llama', { 'attention.layer_norm_rms_epsilon': -1 }, 'epsilon of norms must be above 0, got -1'],
    ['llama', { 'attention.layer_norm_rms_epsilon': Number.NaN }, 'must be a number, got NaN'],
    ['qwen2', { 'rope.freq_base': 0 }, 'rope.freq_base must be above 0, got 0'],
    ['gemma3', { 'rope.freq_base_swa': -5 }, 'rope.freq_base must be above 0, got -5'],
    ['qwen3', { 'rope.scaling.factor': -2 }, 'rope.scaling.factor must be above 0, got -2'],
    ['llama', { ...yarn, 'rope.scaling.factor': 0 }, 'divisors that are not greater than 0'],
    ['llama', { ...yarn, 'rope.scaling.yarn_attn_factor': -1 }, 'attn_factor must be above 0, got -1'],
    ['llama', { ...yarn, 'rope.dimension_count': 1e9 }, 'from 1 to 65536, got 1000000000'],
    [
      'llama',
      { ...yarn, 'rope.dimension_count': undefined, 'attention.key_length': 1e12 },
      'from 1 to 65536',
    ],
    ['smollm3', { 'rope.dimension_count': 0 }, 'from 1 to 65536, got 0'],
    ['llama', { 'attention.sliding_window': -1 }, "sliding_window' must be a whole number >= 0, got -1"],
    ['phi3', { 'attention.sliding_window': 1.5 }, 'must be a whole number >= 0, got 1.5'],
    ['gemma3', { 'attention.sliding_window_pattern': 0.5 }, 'a list or a whole number >= 0, got 0.5'],
    ['granite', { logit_scale: Number.NaN }, 'must be a number, got NaN'],
  ] as const)('%s with %o is refused', async (architecture, changes, message) => {
    await expect(buildGraph(await changed(architecture, changes))).rejects.toThrow(message);
  });
});

describe('the header of a GGUF file', () => {
  const zeros = (bytes: number, write: (view: DataView) => void): Uint8Array => {
    const file = new Uint8Array(bytes);
    const view = new DataView(file.buffer);
    view.setUint32(0, 0x46554747, true);
    view.setUint32(4, 3, true);
    write(view);
    return file;
  };
  const one: GgufFile = {
    metadata: [],
    tensors: ['a', 'b'].map((name) => ({ name, type: 'F32', shape: [8], data: () => new Uint8Array(32) })),
  };

  it('with arrays in an array, as many as zero bytes make, is refused before they are made', async () => {
    const file = zeros(13 << 20, (view) => {
      view.setBigUint64(16, 1n, true);
      view.setBigUint64(24, 1n, true);
      view.setUint8(32, 0x61);
      view.setUint32(33, 9, true);
      view.setUint32(37, 9, true);
      view.setBigUint64(41, 1_000_000n, true);
    });
    const { code, message } = await refusalOfGguf(file);
    expect(code).toBe('corrupt');
    expect(message).toContain('makes more than 65536 nested arrays');
  });

  it.each([
    ['metadata entries', 16],
    ['tensors', 8],
  ])('with millions of %s is refused before they are read', async (what, at) => {
    const file = zeros(70 << 20, (view) => view.setBigUint64(at, 2_000_000n, true));
    expect(await refusalOfGguf(file)).toMatchObject({
      code: 'corrupt',
      message: expect.stringContaining(`2000000 ${what} are too many`),
    });
  });

  it('with a tensor of nothing times infinity is refused', async () => {
    const bytes = ggufBytes({ ...one, lies: { dimensions: { a: [0n, 2n ** 63n] } } });
    expect(await refusalOfGguf(bytes)).toMatchObject({
      code: 'corrupt',
      message: expect.stringContaining("tensor 'a' has the invalid shape [2^53 or more, 0]"),
    });
  });

  it('of a merged set, which says 0 parts, is whole', async () => {
    const bytes = ggufBytes({ ...one, metadata: [['split.count', scalar('u16', 0)]] });
    expect((await openSource(memorySource(bytes))).tensors.size).toBe(2);
  });

  it('with a count of parts that is no number is refused', async () => {
    const bytes = ggufBytes({ ...one, metadata: [['split.count', text('two')]] });
    expect(await refusalOfGguf(bytes)).toMatchObject({
      code: 'split',
      message: expect.stringContaining('split.count is two, not a number'),
    });
  });

  it('does not fill a message with a name of a megabyte', async () => {
    const name = 'x'.repeat(1 << 20);
    const wide = { ...one, tensors: one.tensors.map((tensor) => ({ ...tensor, name })) };
    expect((await refusalOfGguf(ggufBytes(wide))).message.length).toBeLessThan(2100);
  });
});

describe('a Hugging Face folder', () => {
  const llama = tinyFolder('llama');
  const nested = '['.repeat(300) + ']'.repeat(300);
  const bytesOf = (value: string) => new TextEncoder().encode(value);

  it.each([
    [{ hidden_size: 2 ** 50 }, /heads of \d+ .* are wider than 65536/],
    [{ head_dim: -64 }, /head_dim must be a whole number >= 1, got -64/],
    [{ num_key_value_heads: 0.5 }, /num_key_value_heads must be a whole number >= 1, got 0.5/],
  ])('with %o allocates nothing for it', async (changes, message) => {
    expect(await refusalOf(withConfig(llama, changes))).toMatchObject({
      code: 'bad_config',
      message: expect.stringMatching(message),
    });
  });

  it.each(['config.json', 'tokenizer.json', 'model.safetensors.index.json'])(
    'whose %s nests without end is refused by name',
    async (name) => {
      const { [name]: _, ...rest } = llama;
      const contents = name.endsWith('index.json')
        ? { ...rest, 'model.safetensors': llama['model.safetensors']! }
        : rest;
      const { code, message } = await refusalOf({ ...contents, [name]: bytesOf(`{"a":${nested}}`) });
      expect(code).toBe('corrupt');
      expect(message).toContain(`${name} nests brackets too deeply`);
    },
  );

  it('and brackets in texts are no nesting', async () => {
    const config = { ...parsed(llama['config.json']), remark: `${'['.repeat(500)}"\\` };
    await openModelFile(memoryFiles({ ...llama, 'config.json': bytesOf(JSON.stringify(config)) }));
  });

  it('whose weights have a name of millions of escapes is refused by name', async () => {
    const name = '\\\\'.repeat(4_000_000);
    const weights = safetensorsWith(`{"${name}":1}`, 0);
    expect(await refusalOf({ ...llama, 'model.safetensors': weights })).toMatchObject({
      code: 'corrupt',
      message: expect.stringContaining('model.safetensors: tensor'),
    });
  });

  it('without embeddings does not make as many tokens as it claims', async () => {
    const claims = withConfig(llama, { vocab_size: 4e9 });
    expect(await refusalOf(withWeights(claims, { 'model.embed_tokens.weight': undefined }))).toMatchObject({
      code: 'bad_tensors',
      message: expect.stringContaining('no tensor holds the token embeddings'),
    });
  });
});

describe('an MLC folder', () => {
  it.each(['../../x', '/etc/x', 'a/../../x', '', 'a\u001b[2Jb'])('names no shard %j', async (dataPath) => {
    const contents = mlcFolder(tinyFolder('llama'), { quantization: 'q4f16_1' });
    const cache = parsed(contents['tensor-cache.json']) as { records: Record<string, unknown>[] };
    for (const record of cache.records) record['dataPath'] = dataPath;
    const files = memoryFiles({ ...contents, 'tensor-cache.json': json(cache) });
    await expect(openModelFile(files)).rejects.toThrow('is not the name of a file');
    // Nor does `models verify` look at one.
    await expect(readShardFiles(files)).rejects.toThrow('is not the name of a file');
  });

  it('has as many tokens as rows, whatever it claims', async () => {
    const change = (config: Record<string, unknown>) => {
      config['vocab_size'] = 4e9;
      (config['model_config'] as Record<string, unknown>)['vocab_size'] = 4e9;
    };
    const contents = mlcFolder(tinyFolder('llama'), { quantization: 'q4f16_1', change });
    const file = await openModelFile(memoryFiles(contents));
    const tokens = file.metadata.get('tokenizer.ggml.tokens') as readonly string[];
    expect(tokens.length).toBe(file.tensors.get('token_embd.weight')?.shape[0]);
  });
});

describe('weights that are no numbers', () => {
  it.each(['Q8_0', 'Q4_0', 'Q4_K'] satisfies QuantizeType[])('are not quantised to %s', async (type) => {
    for (const bad of [Number.NaN, Number.POSITIVE_INFINITY]) {
      const values = new Float32Array(3 * 256).fill(0.5);
      values[256 + 7] = bad;
      const data = () => new Uint8Array(values.buffer);
      const bytes = ggufBytes({ metadata: [], tensors: [{ name: 'w', type: 'F32', shape: [3, 256], data }] });
      const file = quantizeModelFile(await openSource(memorySource(bytes)), type);
      await expect(file.readRows(file.tensors.get('w')!, 0, 3)).rejects.toThrow(
        "tensor 'w' holds a value that is infinite or NaN (row 1)",
      );
      expect((await file.readRows(file.tensors.get('w')!, 2, 1)).length).toBeGreaterThan(0);
    }
  });
});
