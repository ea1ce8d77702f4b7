/** Models with damaged or misleading files: affected requests get an error, and others are not affected. */
import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { openRunner } from '../../src/engine/loading/open-runner.ts';
import { type Metadata, type ModelFile, ModelFileError } from '../../src/engine/formats/model-file.ts';
import { bytesOfRow } from '../../src/engine/formats/rows.ts';
import {
  type EngineOptions,
  greedySampling,
  loadEngine,
  type ResidentEngine,
} from '../../src/engine/index.ts';
import { buildGraph } from '../../src/engine/models/registry.ts';
import type { Platform } from '../../src/engine/platform.ts';
import { testPlatform } from '../support/test-platform.ts';
import { memorySource, openSource } from '../support/byte-source.ts';
import { hostileNumbers, nothing } from '../support/hostile-values.ts';
import { logitsAt, takePages } from '../support/logits-at.ts';
import { loadFromMemory, memoryPlatform } from '../support/tiny-model.ts';
import { everyNth, rounds, selectCases } from '../support/tier.ts';

const bytesOf = (name: string): Uint8Array<ArrayBuffer> =>
  new Uint8Array(readFileSync(new URL(`../fixtures/architectures/${name}/model.gguf`, import.meta.url)));

/** The file with NaN in one row of a tensor, or in all of it. */
async function withoutNumbers(name: string, tensor: string, row?: number): Promise<Uint8Array<ArrayBuffer>> {
  const bytes = bytesOf(name);
  const info = (await openSource(memorySource(bytes))).tensors.get(tensor);
  if (!info || !['F32', 'BF16', 'MXFP4'].includes(info.type)) throw new Error(`${tensor} is of another type`);
  const size = row === undefined ? info.sizeBytes : bytesOfRow(info);
  const first = info.offset + (row ?? 0) * size;
  // All bits set is NaN in every type; in MXFP4, in the exponent.
  bytes.fill(0xff, first, first + size);
  return bytes;
}

/**
 * The model with one row of a tensor, or all of it, set to NaN at load time, as by failing memory or overflowing
 * products.
 */
async function damagedLater(
  name: string,
  { tensor, row }: { tensor: string; row?: number },
  options: Omit<EngineOptions, 'model'>,
): Promise<ResidentEngine> {
  const bytes = bytesOf(name);
  const info = (await openSource(memorySource(bytes))).tensors.get(tensor);
  if (!info || !['F32', 'BF16', 'MXFP4'].includes(info.type)) throw new Error(`${tensor} is of another type`);
  const buffers = new Map<string, GPUBuffer>();
  const engine = await loadEngine(withBuffers(memoryPlatform(bytes), buffers), { ...options, model: name });
  const { queue } = engine.runner.gpu.device;
  const size = bytesOfRow(info);
  let found = 0;
  for (const [label, buffer] of buffers) {
    const [key = ''] = label.split('@');
    // Float weights have no scales, so a row is damaged instead.
    if (!key.split('+').includes(tensor) || (row !== undefined && label.endsWith('.scales'))) continue;
    found += 1;
    // Rows of these widths are stored as in the file.
    const [first, length] = row === undefined ? [0, buffer.size] : [row * size, size];
    queue.writeBuffer(buffer, first, new Uint8Array(length).fill(0xff));
  }
  // A table that stays in the file.
  if (found === 0) bytes.fill(0xff, info.offset + (row ?? 0) * size, info.offset + ((row ?? 0) + 1) * size);
  return engine;
}

/** The platform, with devices that expose their buffers by label. */
const withBuffers = (platform: Platform, buffers: Map<string, GPUBuffer>): Platform => ({
  ...platform,
  async requestAdapter(wanted) {
    const adapter = await platform.requestAdapter(wanted);
    const request = adapter.requestDevice.bind(adapter);
    adapter.requestDevice = async (descriptor) => {
      const device = await request(descriptor);
      const create = device.createBuffer.bind(device);
      device.createBuffer = (one) => {
        const buffer = create(one);
        if (one.label !== undefined) buffers.set(one.label, buffer);
        return buffer;
      };
      return device;
    };
    return adapter;
  },
});

/** The ids of an output, or the code of the error that ended it. */
async function ask(engine: ResidentEngine, prompt: readonly number[]): Promise<readonly number[] | string> {
  const ids: number[] = [];
  try {
    const request = { prompt, maxTokens: 12, sampling: greedySampling, stop: [], ignoreEnd: true };
    for await (const event of engine.generate(request)) if (event.type === 'text') ids.push(...event.ids);
    return ids;
  } catch (error) {
    return (error as { code: string }).code;
  }
}

const damaged = 7;
/** Prompts of several pages, without the damaged token. */
const prompts = Array.from({ length: 6 }, (_, n) =>
  Array.from({ length: 40 + 9 * n }, (_token, at) => ((at * 13 + n * 31 + 20) % 250) + 20),
);
/** Each starts like its prompt, up to the damaged token. */
const broken = prompts.map((prompt, n) => prompt.map((id, at) => (at === 30 + n ? damaged : id)));

describe('a token whose embedding is NaN', () => {
  const models = [
    ['qwen3', 'token_embd.weight'],
    ['qwen3moe', 'token_embd.weight'],
    ['gpt-oss', 'token_embd.weight'],
    ['qwen3.5', 'token_embd.weight'],
    ['gemma4', 'per_layer_token_embd.weight'],
  ] as const;
  it.each(selectCases(models, ([name]) => name === 'qwen3'))(
    'fails the requests that contain it, and no others: %s',
    async (name, tensor) => {
      const whole = await loadFromMemory(bytesOf(name), { parallel: 3 });
      const expected: (readonly number[] | string)[] = [];
      for (const prompt of prompts) expected.push(await ask(whole, prompt));
      await whole.close();

      const notices: string[] = [];
      const onNotice = (message: string) => void notices.push(message);
      const engine = await damagedLater(name, { tensor, row: damaged }, { parallel: 3, onNotice });
      try {
        // They share prefixes, steps, slots and pages.
        for (let round = 0; round < 3; round++) {
          const pairs = await Promise.all(
            prompts.map(async (prompt, n) => {
              const other = broken[(n + round) % broken.length] as readonly number[];
              return await Promise.all([ask(engine, other), ask(engine, prompt)]);
            }),
          );
          expect(pairs.map(([bad]) => bad)).toEqual(prompts.map(() => 'broken_model'));
          expect(pairs.map(([, good]) => good)).toEqual(expected);
        }
        expect(engine.stats()).toMatchObject({ running: 0, queued: 0, deviceLosses: 0 });
        const { free, cached, total } = engine.stats().pages;
        expect(free + cached).toBe(total);
        expect(notices).toEqual([]);
      } finally {
        await engine.close();
      }
    },
  );

  it('is not hidden by reusing a text with the same prefix', async () => {
    const engine = await damagedLater(
      'qwen3',
      { tensor: 'token_embd.weight', row: damaged },
      { parallel: 2 },
    );
    try {
      const [prompt = [], bad = []] = [prompts[0], broken[0]];
      const before = await ask(engine, prompt);
      expect(await ask(engine, bad)).toBe('broken_model');
      expect(await ask(engine, bad)).toBe('broken_model');
      expect(await ask(engine, prompt)).toEqual(before);
    } finally {
      await engine.close();
    }
  });
});

/** Tensors that every token uses. */
const everywhere = [
  ['qwen3moe', 'blk.1.ffn_gate_inp.weight'],
  ['gpt-oss', 'blk.1.ffn_gate_inp.bias'],
  ['gpt-oss', 'blk.1.attn_sinks.weight'],
  ['gpt-oss', 'blk.1.ffn_gate_exps.weight'],
  ['gpt-oss', 'blk.1.ffn_up_exps.weight'],
  ['gpt-oss', 'blk.1.ffn_down_exps.weight'],
  ['lfm2', 'blk.0.shortconv.conv.weight'],
  ['qwen3.5', 'blk.0.ssm_a'],
  ['gemma4', 'per_layer_proj_norm.weight'],
] as const;

describe('a file with infinite or NaN weights', () => {
  it.each([
    ...everyNth(everywhere, 4).map(([name, tensor]) => [name, tensor, undefined] as const),
    // Weights that warm-up does not use: a token and an expert.
    ['qwen3', 'token_embd.weight', damaged],
    ['gpt-oss', 'blk.1.ffn_down_exps.weight', 65],
    ['gemma4', 'per_layer_token_embd.weight', damaged],
    ['bert', 'token_embd.weight', damaged],
    ['bert', 'blk.0.attn_output_norm.weight', undefined],
  ] as const)('%s is rejected, naming the tensor: %s, row %s', async (name, tensor, row) => {
    const loading = loadFromMemory(await withoutNumbers(name, tensor, row), { parallel: 1 });
    await expect(loading).rejects.toMatchObject({
      code: 'corrupt',
      message: expect.stringContaining(
        `tensor '${tensor}' holds a value that is infinite or NaN (row ${row ?? 0})`,
      ),
    });
  });

  it('is rejected for an infinite value as well', async () => {
    const bytes = bytesOf('qwen3');
    const info = (await openSource(memorySource(bytes))).tensors.get('output_norm.weight');
    new DataView(bytes.buffer).setFloat32((info?.offset ?? 0) + 12, Number.NEGATIVE_INFINITY, true);
    await expect(loadFromMemory(bytes)).rejects.toThrow(
      "tensor 'output_norm.weight' holds a value that is infinite or NaN",
    );
  });
});

describe('weights that every token uses', () => {
  it.each(everyNth(everywhere, 3))(
    '%s: %s with NaN fails every request, and the engine keeps running',
    async (name, tensor) => {
      const engine = await damagedLater(name, { tensor }, { parallel: 3 });
      try {
        const answers = await Promise.all(prompts.map((prompt) => ask(engine, prompt)));
        expect(answers).toEqual(prompts.map(() => 'broken_model'));
        expect(engine.stats()).toMatchObject({ running: 0, queued: 0, deviceLosses: 0 });
      } finally {
        await engine.close();
      }
    },
  );
});

describe('misleading metadata', () => {
  const names = ['qwen3moe', 'gpt-oss', 'lfm2', 'qwen3.5', 'gemma4'];
  /** Keys that change how the same tensors are computed. */
  const keys = [
    'attention.layer_norm_rms_epsilon',
    'attention.shared_kv_layers',
    'attention.sliding_window',
    'attention.sliding_window_pattern',
    'block_count',
    'context_length',
    'expert_used_count',
    'final_logit_softcapping',
    'nextn_predict_layers',
    'rope.dimension_count',
    'rope.freq_base',
    'rope.freq_base_swa',
    'rope.scaling.factor',
    'rope.scaling.original_context_length',
    'rope.scaling.type',
    'rope.scaling.yarn_beta_slow',
  ];
  const changes = fc.dictionary(fc.constantFrom(...keys), fc.constantFrom(...hostileNumbers), {
    minKeys: 1,
    maxKeys: 2,
    noNullPrototype: true,
  });

  async function lying(name: string, some: Readonly<Record<string, unknown>>): Promise<ModelFile> {
    const file = await openSource(memorySource(bytesOf(name)));
    const metadata = new Map<string, unknown>(file.metadata);
    for (const [key, value] of Object.entries(some)) {
      const full = `${String(file.metadata.get('general.architecture'))}.${key}`;
      if (value === nothing) metadata.delete(full);
      else metadata.set(full, value);
    }
    return { ...file, metadata: metadata as Metadata };
  }

  it('is rejected, or gives a model with finite logits and no GPU errors', async () => {
    let made = 0;
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...names), changes, async (name, some) => {
        const file = await lying(name, some);
        const graph = await buildGraph(file).catch((error: unknown) => {
          if (error instanceof ModelFileError) return undefined;
          throw error;
        });
        if (!graph || made >= 30) return;
        made += 1;
        const notices: string[] = [];
        const onNotice = (message: string) => void notices.push(message);
        const options = { model: name, exact: true, parallel: 1, onNotice };
        const runner = await openRunner({ platform: testPlatform(), options, file, graph });
        try {
          takePages(runner, 0);
          const length = Math.min(40, runner.memory.capacity.context);
          const ids = Array.from({ length }, (_, at) => (at * 37 + 5) % graph.shape.vocabulary);
          const [last] = await logitsAt(runner, ids, [length - 1], { chunks: [Math.max(1, length - 1), 1] });
          expect(
            last?.every(Number.isFinite),
            JSON.stringify(some, (_, v) => String(v)),
          ).toBe(true);
          expect(notices).toEqual([]);
        } finally {
          runner.destroy();
        }
      }),
      { numRuns: rounds(120, 20) },
    );
    expect(made).toBeGreaterThan(rounds(10, 1));
  });
});
