/** The verified start: kernels that give wrong results on an adapter are found, named, and replaced or refused. */
import { describe, expect, it } from 'vitest';
import { loadEngine, type Platform, type Store, type VerifyMode } from '../../src/engine/index.ts';
import { greedySampling } from '../../src/engine/types.ts';
import { embeddingModels, generatingModels, loadRunner, type platforms } from '../support/architectures.ts';
import { nodePlatform } from '../../src/platform/node.ts';
import { asHardware, testPlatform } from '../support/test-platform.ts';
import { runsRest, selectCases } from '../support/tier.ts';
import { memoryPlatform, tinyModel, type TinyModel } from '../support/tiny-model.ts';

type Kind = keyof typeof platforms;

/** The machine's adapter as it is. */
const adapter = nodePlatform();
const isSoftware = (await adapter.requestAdapter({})).info.isFallbackAdapter;

const llama: TinyModel = { architecture: 'llama', layers: 1, type: 'Q8_0', feedForward: 128 };

/** A model in memory on kernels whose text was changed, as a wrong driver changes them. */
async function start(
  model: TinyModel | string,
  { on, changes = [], store, verify = 'sample', exact = false }: StartOptions,
) {
  const memory = typeof model === 'string' ? testPlatform() : memoryPlatform(tinyModel(model));
  const platform: Platform =
    on === 'hardware'
      ? asHardware(memory)
      : { ...memory, requestAdapter: (options) => adapter.requestAdapter(options) };
  const wgsl = new Map(await memory.wgsl());
  for (const [source, from, to] of changes) {
    const text = wgsl.get(source) as string;
    expect(text, source).toContain(from);
    wgsl.set(source, text.replaceAll(from, to));
  }
  const notices: string[] = [];
  const engine = await loadEngine(
    { ...platform, wgsl: async () => wgsl, ...(store ? { store } : {}) },
    {
      model: typeof model === 'string' ? model : 'memory.gguf',
      context: 128,
      parallel: 4,
      verify,
      exact,
      onNotice: (text) => notices.push(text),
    },
  );
  return { engine, notices };
}

type Changes = readonly (readonly [source: string, from: string, to: string])[];

interface StartOptions {
  readonly on: Kind;
  readonly changes?: Changes;
  readonly store?: Store;
  readonly verify?: VerifyMode;
  readonly exact?: boolean;
}

interface Fault {
  readonly what: string;
  readonly on: Kind;
  readonly shape?: TinyModel;
  /** A model of test/fixtures/architectures in its place. */
  readonly model?: string;
  readonly exact?: boolean;
  readonly changes: Changes;
  /** The kernels that are replaced, or the one that has no replacement. */
  readonly replaced?: RegExp;
  readonly refused?: RegExp;
  /** Runs in `npm test`. */
  readonly sample?: boolean;
}

const write = 'value = write_result(token, row, value);';

const faults: readonly Fault[] = [
  {
    what: 'decode product, 1 % too large',
    on: 'software',
    changes: [
      ['matmul.wgsl', write, 'value = write_result(token, row, select(value, 1.01 * value, COLS == 1u));'],
    ],
    replaced: /^matmul\.wgsl q8_0/,
  },
  {
    what: 'prompt product without the last block of columns',
    on: 'software',
    changes: [
      [
        'matmul.wgsl',
        'b < params.blocks; b++',
        'b < select(params.blocks, params.blocks - 1u, COLS > 1u); b++',
      ],
    ],
    replaced: /^matmul\.wgsl q8_0/,
  },
  {
    what: 'decode product of packed bytes, 0.2 % too small',
    on: 'hardware',
    changes: [
      ['matvec_packed.wgsl', 'sum[i] = subgroupAdd(sum[i]);', 'sum[i] = 0.998 * subgroupAdd(sum[i]);'],
    ],
    replaced: /^matvec_packed\.wgsl q8_0 subgroups$/,
  },
  {
    what: 'decode product without one lane',
    on: 'hardware',
    exact: true,
    changes: [
      [
        'matvec.wgsl',
        'sum[c * ROWS + r] += part[c];',
        'sum[c * ROWS + r] += select(part[c], 0.0, local == 5u);',
      ],
    ],
    replaced: /^matvec\.wgsl q8_0 subgroups/,
  },
  {
    what: 'prompt tile in f16, 0.5 % too large',
    on: 'hardware',
    changes: [
      [
        'matmul_tile.wgsl',
        '  finish_tile(sum, row0, token0, local);',
        '  //#if F16\n  for (var t = 0u; t < 4u; t++) { sum[t] *= 1.005; }\n  //#endif\n  finish_tile(sum, row0, token0, local);',
      ],
    ],
    replaced: /^matmul_tile\.wgsl q8_0 f16$/,
    sample: true,
  },
  {
    what: 'prompt tile with a wrong row at its edge',
    on: 'hardware',
    changes: [
      [
        'lib/tile_results.wgsl',
        'value = write_result(token, row + r, value);',
        'value = write_result(token, row + r, select(value, results[t][0], row + r + 1u == out_rows()));',
      ],
    ],
    replaced: /^matmul_tile\.wgsl/,
  },
  {
    what: 'matrix-vector results of the second of four sequences from the first',
    on: 'hardware',
    changes: [
      [
        'lib/matvec_results.wgsl',
        'value = result_of(sub, i << pair) * inverse;',
        'value = result_of(sub, select(i, 0u, COLS == 2u && i >= across) << pair) * inverse;',
      ],
    ],
    replaced: /^matvec/,
  },
  {
    what: 'attention while decoding with the key head of the neighbor',
    on: 'software',
    changes: [
      [
        'attention_decode.wgsl',
        'let kv_head = key_head(group.y);',
        'let kv_head = (key_head(group.y) + 1u) % params.kv_heads;',
      ],
    ],
    refused: /attention_decode\.wgsl/,
  },
  {
    what: 'attention while decoding, without the oldest position, with subgroups',
    on: 'software',
    changes: [
      [
        'attention_decode.wgsl',
        '  return position < end;',
        '  //#if SUBGROUPS\n  return position < end && (position > 0u || end == 1u);\n  //#else\n  return position < end;\n  //#endif',
      ],
    ],
    replaced: /^attention_decode\.wgsl subgroups$/,
    sample: true,
  },
  {
    what: 'flash decoding, 0.1 % too large',
    on: 'hardware',
    changes: [
      ['attention_flash_decode.wgsl', 'out[to + e] = total * scale;', 'out[to + e] = 1.001 * total * scale;'],
    ],
    replaced: /^attention_flash_decode\.wgsl subgroups$/,
  },
  {
    what: 'attention of prompts that does not see its own position',
    on: 'software',
    changes: [
      [
        'attention_prefill.wgsl',
        '  return position < end && position <= place;',
        '  //#if SUBGROUPS\n  return position < end && (position < place || place == 0u);\n  //#else\n  return position < end && position <= place;\n  //#endif',
      ],
    ],
    replaced: /^attention_prefill\.wgsl subgroups$/,
    sample: true,
  },
  {
    what: 'norm without eps',
    on: 'software',
    shape: { ...llama, architecture: 'qwen3' },
    changes: [['rms_norm.wgsl', 'f32(params.columns) + params.eps)', 'f32(params.columns))']],
    refused: /rms_norm\.wgsl/,
    sample: true,
  },
  {
    what: 'norm whose subgroup sum leaves out a lane',
    on: 'software',
    changes: [
      [
        'lib/reduce.wgsl',
        'return subgroupAdd(value);',
        'return subgroupAdd(select(value, 0.0, local == 3u));',
      ],
    ],
    replaced: /rms_norm\.wgsl subgroups/,
  },
  {
    what: 'norm that a product applies, without eps',
    on: 'software',
    changes: [
      [
        'lib/matmul_params.wgsl',
        'inverseSqrt(sum_of_squares / params.width + params.eps)',
        'inverseSqrt(sum_of_squares / params.width)',
      ],
    ],
    // The norm is a kernel of its own where products have no subgroups.
    replaced: /^matmul\.wgsl q8_0 subgroups$/,
  },
  {
    what: 'embedding of the next token',
    on: 'software',
    changes: [['embed.wgsl', 'var id = token[t].x;', 'var id = token[t].x ^ 1u;']],
    refused: /the embed kernel embed\.wgsl q8_0 .*\(embed y: /,
    sample: true,
  },
  {
    what: 'rotation of a prompt by the next position',
    on: 'software',
    changes: [['rope_kv_write.wgsl', 'let turns = position * half;', 'let turns = (position + 1u) * half;']],
    refused: /the rope_kv_write kernel rope_kv_write\.wgsl/,
  },
  {
    what: 'values written to the cache of the next slot position',
    on: 'software',
    changes: [
      [
        'rope_kv_write.wgsl',
        'v_cache[(row + high.x) / 2u] = pack2x16float(b);',
        'v_cache[(row + high.x) / 2u] = pack2x16float(a);',
      ],
    ],
    refused: /rope_kv_write\.wgsl/,
  },
  {
    what: 'greedy sampling of the second best',
    on: 'software',
    changes: [['sample_pick.wgsl', 'results[group.x] = pick;', 'results[group.x] = pick ^ 1u;']],
    refused: /sample_pick\.wgsl/,
  },
  {
    what: 'experts, 1 % too large',
    on: 'software',
    shape: { ...llama, architecture: 'qwen3moe' },
    changes: [['lib/expert_params.wgsl', 'y[at] = value;', 'y[at] = 1.01 * value;']],
    refused: /expert_matmul\.wgsl/,
  },
  {
    what: 'a router that selects by the lowest logits',
    on: 'software',
    shape: { ...llama, architecture: 'qwen3moe' },
    changes: [['route.wgsl', 'keys[other] > mine ||', 'keys[other] < mine ||']],
    refused: /route\.wgsl/,
  },
  {
    what: 'experts in tiles, 1 % too small',
    on: 'hardware',
    shape: { ...llama, architecture: 'qwen3moe' },
    changes: [
      [
        'expert_tile.wgsl',
        '      write_result(tile, pair, row + r, results[t][r]);',
        '      results[t][r] *= 0.99;\n      write_result(tile, pair, row + r, results[t][r]);',
      ],
    ],
    refused: /expert_tile\.wgsl q8_0/,
  },
  {
    what: 'a recurrent state that decays too little',
    on: 'software',
    shape: {
      ...llama,
      architecture: 'qwen35',
      layers: 4,
      state: { every: 4, kernel: 4, keyHeads: 2, valueHeads: 4, keyDim: 32, valueDim: 32 },
    },
    changes: [['delta_net.wgsl', 'keep = exp(', 'keep = 1.0001 * exp(']],
    refused: /delta_net\.wgsl/,
  },
  {
    what: 'a convolution without its oldest input',
    on: 'software',
    shape: { ...llama, architecture: 'lfm2', layers: 2, state: { kernel: 3, attending: [1] } },
    changes: [
      [
        'short_conv.wgsl',
        'past[j] = state[kept + j * params.channels];',
        'past[j] = select(state[kept + j * params.channels], 0.0, j == 0u);',
      ],
    ],
    refused: /short_conv\.wgsl/,
  },
  {
    what: 'a norm of an encoder that forgets its bias',
    on: 'software',
    model: 'bert',
    changes: [['layer_norm.wgsl', 'affine[params.columns + c])', '0.0)']],
    refused: /layer_norm\.wgsl/,
  },
  {
    what: 'attention of an encoder that leaves out the last token',
    on: 'software',
    model: 'bert',
    changes: [['attention_encoder.wgsl', '  return position < end;', '  return position + 1u < end;']],
    refused: /attention_encoder\.wgsl/,
  },
  {
    what: 'an added norm, 1 % too large',
    on: 'software',
    shape: { ...llama, architecture: 'gemma3', layers: 2 },
    changes: [
      ['norm_add.wgsl', 'x[start + c] * scale * weight[c])', 'x[start + c] * scale * weight[c] * 1.01)'],
    ],
    refused: /norm_add\.wgsl/,
  },
];

describe('a driver that computes wrongly', () => {
  // A GPU never gets the kernels for software adapters.
  const possibleFaults = faults.filter(({ on }) => on === 'hardware' || isSoftware);

  it.each(selectCases(possibleFaults, ({ sample = false }) => sample))('$on: $what', async (fault) => {
    const { on, model, shape = llama, exact = false, changes, replaced, refused } = fault;
    const named = [...generatingModels, ...embeddingModels].find(({ name }) => name === model);
    const subject = named?.path('model.gguf') ?? shape;
    if (refused) {
      const error: unknown = await start(subject, { on, changes, exact }).catch((reason: unknown) => reason);
      expect(error).toMatchObject({ code: 'unsupported_model' });
      expect((error as Error).message).toMatch(refused);
      return;
    }
    const { engine, notices } = await start(subject, { on, changes, exact });
    const names = engine.replacedKernels.map(({ kernel }) => kernel);
    expect(names, notices.join('\n')).toEqual(
      expect.arrayContaining([expect.stringMatching(replaced as RegExp)]),
    );
    expect(notices.join('\n')).toMatch(/wrong results on .*: \w+ kernel .*wgsl/);
    await engine.close();
  });
});

describe('what is verified', () => {
  const memoryStore = (): Store & { files: Map<string, string> } => {
    const files = new Map<string, string>();
    return {
      files,
      read: async (name) => files.get(name),
      write: async (name, text) => void files.set(name, text),
    };
  };
  const verifications = (notices: readonly string[]) =>
    notices.filter((notice) => notice.startsWith('compared ')).length;

  it('is stored, with what was wrong; off never does it', async () => {
    const store = memoryStore();
    // With a store, kernels are measured first, and a wrong one among several is left out there. These are all wrong in the same way.
    const changes = [
      [
        'attention_prefill.wgsl',
        '  return position < end && position <= place;',
        '  //#if SUBGROUPS\n  return position < end && (position < place || place == 0u);\n  //#else\n  return position < end && position <= place;\n  //#endif',
      ],
    ] as const;
    const options = { on: 'hardware', changes, store } as const;
    const first = await start(llama, options);
    expect(verifications(first.notices)).toBe(1);
    const [replaced] = first.engine.replacedKernels;
    expect(replaced).toMatchObject({ kernel: 'attention_prefill.wgsl subgroups' });
    expect(replaced?.reason).toMatch(/^layers\.0\.attn\.attend\.wide out: /);
    await first.engine.close();

    const second = await start(llama, options);
    expect(verifications(second.notices)).toBe(0);
    expect(second.engine.replacedKernels).toEqual([replaced]);
    const builtins = second.engine.runner.plan.dispatches.flatMap(({ choices }) =>
      choices.flatMap(({ builtin }) =>
        builtin?.source === 'attention_prefill.wgsl' ? [builtin.variant] : [],
      ),
    );
    expect(builtins.map(({ SUBGROUPS }) => SUBGROUPS)).not.toContain(true);
    expect(builtins.length).toBeGreaterThan(0);
    await second.engine.close();

    const other = await start({ ...llama, feedForward: 160 }, options);
    expect(verifications(other.notices), 'another shape').toBe(1);
    expect(other.engine.replacedKernels, 'known from the first').toEqual([replaced]);
    await other.engine.close();

    const off = await start(llama, { on: 'hardware', changes, verify: 'off' });
    expect(verifications(off.notices)).toBe(0);
    expect(off.engine.replacedKernels).toEqual([]);
    await off.engine.close();
  });

  it.runIf(runsRest)('full repeats it', async () => {
    const store = memoryStore();
    for (const verify of ['sample', 'full', 'full', 'sample'] as const) {
      const isFirst = store.files.size === 0;
      const { engine, notices } = await start(llama, { on: 'hardware', store, verify });
      expect(verifications(notices)).toBe(verify === 'full' || isFirst ? 1 : 0);
      await engine.close();
    }
  });

  it('a model on a replaced family still answers, as with a correct driver', async () => {
    const request = { prompt: [1, 2, 3], maxTokens: 8, sampling: greedySampling, stop: [], ignoreEnd: true };
    const answers = await Promise.all(
      [[], [['matmul.wgsl', write, 'value = write_result(token, row, 1.01 * value);']] as const].map(
        async (changes) => {
          const on = isSoftware ? 'software' : 'hardware';
          const { engine } = await start(llama, { on, changes });
          const ids: number[] = [];
          for await (const event of engine.generate(request))
            if (event.type === 'text') ids.push(...event.ids);
          await engine.close();
          return ids;
        },
      ),
    );
    expect(answers[1]).toEqual(answers[0]);
  });
});

describe('a correct adapter', () => {
  const models = [...generatingModels, ...embeddingModels];
  const cases = models.flatMap(({ name, path }) =>
    (['software', 'hardware'] as const).map((on) => ({ name, on, path: path('model.gguf') })),
  );

  // The others take longer: larger heads, and kernels of mixtures.
  const sampled = ['qwen3 on software', 'bge on hardware'];
  it.each(selectCases(cases, ({ name, on }) => sampled.includes(`${name} on ${on}`)))(
    'raises no alarm: $name on $on',
    async ({ path, on }) => {
      const notices: string[] = [];
      const runner = await loadRunner(path, { on, verify: 'full', onNotice: (text) => notices.push(text) });
      expect(runner.replacedKernels).toEqual([]);
      expect(notices.join('\n')).toMatch(/^compared [1-9]\d{3,} results of .*: correct \(seed \d+\)$/m);
      runner.destroy();
    },
  );
});
