/**
 * Files of the newest architectures with implausible metadata: each gives a model or an error that names the problem.
 */
import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  type Metadata,
  type ModelFile,
  ModelFileError,
  type TensorInfo,
} from '../../src/engine/formats/model-file.ts';
import { openModelFile } from '../../src/engine/formats/open-model-file.ts';
import { withTensorViews } from '../../src/engine/formats/tensor-views.ts';
import { buildGraph } from '../../src/engine/models/registry.ts';
import { weightBytes } from '../../src/engine/loading/weights.ts';
import { memoryFiles, memorySource, openSource } from '../support/byte-source.ts';
import { hostileJson, hostileNumbers, nothing } from '../support/hostile-values.ts';
import { type Contents, json, parsed, tinyFolder } from '../support/tiny-folder.ts';

const names = ['qwen3moe', 'gpt-oss', 'lfm2', 'qwen3.5', 'gemma4'] as const;
type Name = (typeof names)[number];

const fileOf = (name: Name): Promise<ModelFile> =>
  openSource(
    memorySource(
      new Uint8Array(readFileSync(new URL(`../fixtures/architectures/${name}/model.gguf`, import.meta.url))),
    ),
  );
const architectureOf = (file: ModelFile): string => String(file.metadata.get('general.architecture'));

/** Keys of these architectures in addition to those of the tiny models. */
const unusual = [
  'attention.scale',
  'attention.shared_kv_layers',
  'attention.sliding_window',
  'attention.sliding_window_pattern',
  'expert_count',
  'expert_group_count',
  'expert_shared_count',
  'final_logit_softcapping',
  'nextn_predict_layers',
  'rope.dimension_count',
  'rope.freq_base_swa',
  'rope.scaling.factor',
  'rope.scaling.type',
];

const withMetadata = (file: ModelFile, changes: Readonly<Record<string, unknown>>): ModelFile => {
  const metadata = new Map<string, unknown>(file.metadata);
  for (const [key, value] of Object.entries(changes)) {
    if (value === nothing) metadata.delete(`${architectureOf(file)}.${key}`);
    else metadata.set(`${architectureOf(file)}.${key}`, value);
  }
  return { ...file, metadata: metadata as Metadata };
};

const withTensor = (file: ModelFile, name: string, info: TensorInfo | undefined): ModelFile => {
  const tensors = new Map(file.tensors);
  if (info) tensors.set(name, info);
  else tensors.delete(name);
  return { ...file, tensors };
};

/**
 * The error of a rejected file; undefined for a model whose size can be computed. Any other outcome fails the test.
 */
async function refusal(file: ModelFile): Promise<string | undefined> {
  try {
    const graph = await buildGraph(file);
    expect(weightBytes(withTensorViews(file, graph.views), graph)).toBeLessThan(1e8);
    return undefined;
  } catch (error) {
    if (error instanceof ModelFileError) return error.message;
    throw error;
  }
}

/** Other extents for a tensor, with the same or another number of dimensions. */
const otherShapes = (shape: readonly number[]): readonly (readonly number[])[] =>
  [
    [],
    [0],
    shape.map(() => 0),
    [1, ...shape],
    [...shape, 1],
    [shape.reduce((product, extent) => product * extent, 1)],
    shape.toReversed(),
    ...shape.flatMap((_, axis) =>
      [(extent: number) => extent + 1, (extent: number) => 2 * extent, () => 2 ** 31].map((change) =>
        shape.map((extent, index) => (index === axis ? change(extent) : extent)),
      ),
    ),
  ].filter((other) => other.join() !== shape.join());

describe.each(names)('%s', (name) => {
  it('with any single metadata number wrong gives a model or is rejected', async () => {
    const file = await fileOf(name);
    const prefix = `${architectureOf(file)}.`;
    const own = [...file.metadata.keys()]
      .filter((key) => key.startsWith(prefix))
      .map((key) => key.slice(prefix.length));
    let refused = 0;
    for (const key of new Set([...own, ...unusual])) {
      for (const value of hostileNumbers) {
        if ((await refusal(withMetadata(file, { [key]: value }))) !== undefined) refused += 1;
      }
    }
    expect(refused).toBeGreaterThan(200);
  });

  it('with several metadata numbers wrong as well', async () => {
    const file = await fileOf(name);
    const prefix = `${architectureOf(file)}.`;
    const own = [...file.metadata.keys()].filter((key) => key.startsWith(prefix));
    const keys = [...own.map((key) => key.slice(prefix.length)), ...unusual];
    const changes = fc.dictionary(fc.constantFrom(...keys), fc.constantFrom(...hostileNumbers), {
      minKeys: 2,
      maxKeys: 6,
    });
    await fc.assert(
      fc.asyncProperty(changes, async (some) => void (await refusal(withMetadata(file, some)))),
      { numRuns: 300 },
    );
  });

  it('with a tensor missing or of another shape is rejected, naming the tensor', async () => {
    const file = await fileOf(name);
    for (const tensor of file.tensors.values()) {
      // The vocabulary size is that of the embedding table; whatever then differs is named instead.
      if (tensor.name === 'token_embd.weight') continue;
      const shapes = otherShapes(tensor.shape).map((shape) => ({ ...tensor, shape }));
      for (const other of [undefined, ...shapes]) {
        const why = await refusal(withTensor(file, tensor.name, other));
        if (why !== undefined) expect(why).toContain(`'${tensor.name}'`);
      }
    }
  });
});

describe('more layers than any model has', () => {
  // A call takes a limited number of arguments, and searching every layer in all others would not end.
  const many = 200_000;
  it.each([
    ['lfm2', { 'attention.head_count_kv': 2 }],
    [
      'gemma4',
      {
        'attention.shared_kv_layers': many - 7,
        'attention.sliding_window_pattern': 6,
        feed_forward_length: 32,
      },
    ],
    ['qwen3moe', {}],
  ] as const)('are rejected at once, even with as many tensors: %s', async (name, changes) => {
    const file = await fileOf(name);
    const tensors = new Map(file.tensors);
    const [any] = tensors.values();
    for (let n = 0; n < many; n++) tensors.set(`x${n}`, any as TensorInfo);
    const lying = withMetadata({ ...file, tensors }, { block_count: many, ...changes });
    expect(await refusal(lying)).toMatch(/block_count.* 4096|block_count .*than any model has \(4096\)/);
  });
});

describe('numbers that do not fit 32 bits', () => {
  it.each([
    ['gpt-oss', { 'rope.scaling.yarn_attn_factor': 1e300 }, 'attn_factor must fit a 32-bit float'],
    ['gemma4', { final_logit_softcapping: 1e300 }, 'final_logit_softcapping'],
    ['gemma4', { final_logit_softcapping: -1 }, 'must be greater than 0'],
    ['qwen3moe', { 'attention.layer_norm_rms_epsilon': 1e300 }, 'epsilon of norms must fit a 32-bit float'],
  ] as const)('%s with %o is rejected', async (name, changes, message) => {
    expect(await refusal(withMetadata(await fileOf(name), changes))).toContain(message);
  });
});

describe('tensors that the file has', () => {
  it('a bias that the first layer lacks is not ignored', async () => {
    const file = withTensor(await fileOf('gpt-oss'), 'blk.0.ffn_down_exps.bias', undefined);
    const { units } = await buildGraph(file);
    const biases = units.flatMap((unit) => (unit.op === 'expert_matmul' ? [unit.bias] : []));
    expect(biases).not.toContain('blk.0.ffn_down_exps.bias');
    expect(biases).toContain('blk.1.ffn_down_exps.bias');
  });

  it('a gate is not taken from ffn_up when it has its own tensor', async () => {
    const file = await fileOf('lfm2');
    const up = file.tensors.get('blk.0.ffn_up.weight') as TensorInfo;
    const wide = { ...up, shape: [128, 64] };
    expect(await refusal(withTensor(file, up.name, wide))).toContain(`'${up.name}' must be [64, 64]`);
  });
});

describe("a Hugging Face folder's config.json", () => {
  const folders = [...names, 'gpt-oss-bf16'] as const;
  const values = [
    ...hostileJson,
    { x: { y: 1 } },
    Array.from({ length: 64 }, () => -1),
    Array.from({ length: 64 }, () => 'full_attention'),
  ];
  const unusualKeys = ['head_dim', 'layer_types', 'num_experts', 'rope_scaling', 'quantization_config'];

  /** Every key at any depth, as a path. */
  const pathsOf = (value: object, before: readonly string[] = []): (readonly string[])[] =>
    Object.entries(value).flatMap(([key, inner]: [string, unknown]) => {
      const path = [...before, key];
      return typeof inner === 'object' && inner !== null ? [path, ...pathsOf(inner, path)] : [path];
    });

  const withValue = (contents: Contents, path: readonly string[], value: unknown): Contents => {
    const config = parsed(contents['config.json']);
    const last = path.at(-1) as string;
    const holder = path.slice(0, -1).reduce((at, key) => at[key] as Record<string, unknown>, config);
    if (value === nothing) delete holder[last];
    else holder[last] = value;
    return { ...contents, 'config.json': json(config) };
  };

  it('with anything in it wrong gives a model or is rejected, with bounded memory', async () => {
    const all = folders.map((name) => {
      const contents = tinyFolder(name);
      const paths = pathsOf(parsed(contents['config.json']));
      return { contents, paths: [...paths, ...unusualKeys.map((key) => [key])] };
    });
    const change = fc.constantFrom(...all).chain(({ contents, paths }) =>
      fc.record({
        contents: fc.constant(contents),
        path: fc.constantFrom(...paths),
        value: fc.constantFrom(...values),
      }),
    );
    await fc.assert(
      fc.asyncProperty(change, async ({ contents, path, value }) => {
        const files = memoryFiles(withValue(contents, path, value));
        const file = await openModelFile(files).catch((error: unknown) => {
          if (error instanceof ModelFileError) return undefined;
          throw error;
        });
        if (file) await refusal(file);
      }),
      { numRuns: 700 },
    );
  });

  it.each([
    [['text_config', 'global_head_dim'], 2 ** 31, 'global_head_dim must be at most 65536'],
    [
      ['text_config', 'rope_parameters', 'full_attention', 'partial_rotary_factor'],
      -0.5,
      'partial_rotary_factor must be from 0 to 1, got -0.5',
    ],
  ] as const)('of gemma4 with %j %d is rejected', async (path, value, message) => {
    const files = memoryFiles(withValue(tinyFolder('gemma4'), path, value));
    await expect(openModelFile(files)).rejects.toThrow(message);
  });
});
