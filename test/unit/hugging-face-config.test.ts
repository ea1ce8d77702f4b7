import { describe, expect, it } from 'vitest';
import { openHuggingFace } from '../../src/engine/formats/hugging-face/index.ts';
import type { ModelFile } from '../../src/engine/formats/model-file.ts';
import { buildGraph } from '../../src/engine/models/registry.ts';
import { memoryFiles } from '../support/byte-source.ts';
import { safetensorsBytes, zeros } from '../support/safetensors-writer.ts';
import {
  type Contents,
  json,
  parsed,
  refusalOf,
  tinyFolder,
  weightsOf,
  withConfig,
} from '../support/tiny-folder.ts';

const llama = tinyFolder('llama');
const gemma = tinyFolder('gemma3');
const open = (contents: Contents) => openHuggingFace(memoryFiles(contents));
const numbers = async (contents: Contents) => Object.fromEntries((await open(contents)).metadata);

describe('config.json', () => {
  it('of an unknown kind is refused, listing what is supported', async () => {
    const { code, message } = await refusalOf(withConfig(llama, { model_type: 'mamba' }));
    expect(code).toBe('unsupported_architecture');
    expect(message).toMatch(
      /unknown model_type 'mamba' \(supported: llama, mistral, qwen2, qwen3, .*gemma3, .*bert/,
    );
    expect((await refusalOf(withConfig(llama, { model_type: undefined }))).message).toContain("'undefined'");
  });

  it('of a known kind for another task is refused, listing what is supported', async () => {
    const { code, message } = await refusalOf(
      withConfig(llama, { architectures: ['LlamaForSequenceClassification'] }),
    );
    expect(code).toBe('unsupported_architecture');
    expect(message).toMatch(
      /'LlamaForSequenceClassification' of model_type 'llama'.*LlamaForCausalLM, LlamaModel/,
    );
  });

  it('without architectures uses the default class', async () => {
    const plain = await numbers(withConfig(gemma, { architectures: undefined }));
    expect(plain['general.architecture']).toBe('gemma3');
  });

  it('with missing and invalid keys is rejected with one error that lists all of them', async () => {
    const { code, message } = await refusalOf(
      withConfig(llama, {
        hidden_size: undefined,
        num_hidden_layers: 1.5,
        num_attention_heads: null,
        intermediate_size: 'wide',
        hidden_act: 'gelu',
      }),
    );
    expect(code).toBe('bad_config');
    expect(message).toContain('hidden_size or n_embd is missing');
    expect(message).toContain('num_hidden_layers or n_layer must be a whole number >= 1, got 1.5');
    expect(message).toContain('num_attention_heads or n_head is missing');
    expect(message).toContain('intermediate_size or n_inner must be a number, got "wide"');
    expect(message).toContain('hidden_act "gelu" is not supported (supported: "silu" or "swish")');
  });

  it('of quantised weights is refused, naming the method', async () => {
    const contents = withConfig(llama, { quantization_config: { quant_method: 'gptq', bits: 4 } });
    expect(await refusalOf(contents)).toEqual({
      code: 'unsupported_type',
      message: expect.stringMatching(/quantized by gptq; get the original weights/),
    });
  });

  it('with 4-bit weights is accepted only for the quantization that the family supports', async () => {
    const quantized = (name: string, method: unknown) =>
      refusalOf(withConfig(tinyFolder(name), { quantization_config: { quant_method: method } }));
    expect(await quantized('gpt-oss', 'fp8')).toEqual({
      code: 'unsupported_type',
      message: expect.stringMatching(/quantized by fp8 \(supported: mxfp4\); get the original weights/),
    });
    expect((await quantized('gpt-oss', undefined)).message).toContain('an unknown method');
    expect((await quantized('qwen3moe', 'mxfp4')).message).toContain('quantized by mxfp4; get');
  });

  it.each([
    ['llama', { rope_scaling: { type: 'dynamic', factor: 2 } }, /rope_scaling of type "dynamic"/],
    ['llama', { rope_scaling: { rope_type: 'yarn' } }, /rope_scaling\.factor is missing/],
    ['llama', { rope_scaling: 'linear' }, /rope_scaling or rope_parameters must be an object, got "linear"/],
    ['gemma3', { sliding_window_pattern: 4 }, /sliding_window_pattern 4 is not supported \(supported: 6\)/],
    ['gemma3', { layer_types: ['full_attention'] }, /full_attention in every 6th layer/],
    ['gemma3', { attn_logit_softcapping: 30 }, /attn_logit_softcapping 30 is not supported/],
    ['gemma3', { use_bidirectional_attention: true }, /use_bidirectional_attention true/],
    ['embedding-gemma', { use_bidirectional_attention: false }, /use_bidirectional_attention false/],
    ['smollm3', { no_rope_layers: [1, 0, 1, 1, 1] }, /no_rope_layers must disable every 4th/],
    ['smollm3', { no_rope_layers: undefined, no_rope_layer_interval: 3 }, /no_rope_layer_interval 3/],
    ['smollm3', { use_sliding_window: true }, /use_sliding_window true/],
    ['granite', { head_dim: 48 }, /head_dim 48 is not supported \(supported: 16\)/],
    [
      'phi4-mini',
      { rope_scaling: { type: 'longrope', long_factor: [1], short_factor: 2 } },
      /long_factor must be an array of 12 numbers, got 1; .*short_factor must be an array of 12 numbers, got 2/,
    ],
    [
      'phi4-mini',
      { rope_scaling: { type: 'linear', factor: 2 } },
      /type "linear" is not supported \(supported: longrope\)/,
    ],
    ['bert', { position_embedding_type: 'relative_key' }, /position_embedding_type "relative_key"/],
    ['nomic-bert', { prenorm: true }, /prenorm true is not supported/],
    ['qwen3moe', { mlp_only_layers: [1] }, /mlp_only_layers \[1\] is not supported \(supported: none\)/],
    ['qwen3moe', { decoder_sparse_step: 2 }, /decoder_sparse_step 2 is not supported \(supported: 1\)/],
    ['qwen3moe', { num_experts_per_tok: 0 }, /num_experts_per_tok must be a whole number >= 1, got 0/],
    ['qwen3moe', { moe_intermediate_size: 'x' }, /moe_intermediate_size must be a number, got "x"/],
    ['gpt-oss', { swiglu_limit: 5 }, /swiglu_limit 5 is not supported \(supported: 7\)/],
    ['gpt-oss', { attention_bias: false }, /attention_bias false is not supported/],
    ['gpt-oss', { hidden_act: 'gelu' }, /hidden_act "gelu" is not supported/],
    [
      'gpt-oss',
      { layer_types: ['full_attention'] },
      /layer_types must alternate between sliding_attention and full_/,
    ],
    [
      'gpt-oss',
      { layer_types: 'sliding_attention' },
      /layer_types must alternate between sliding_attention and full_/,
    ],
    ['gpt-oss', { sliding_window: 0 }, /sliding_window must be a whole number >= 1, got 0/],
    ['gpt-oss', { rope_scaling: null }, /rope_scaling is missing/],
    [
      'gpt-oss',
      { rope_scaling: { rope_type: 'yarn', factor: 2, mscale: 0.7, mscale_all_dim: 1 } },
      /rope_scaling\.mscale and mscale_all_dim are not supported/,
    ],
  ])('of %s with %o is not supported', async (name, changes, message) => {
    expect(await refusalOf(withConfig(tinyFolder(name), changes))).toEqual({
      code: 'bad_config',
      message: expect.stringMatching(message),
    });
  });
});

describe('defaults of transformers', () => {
  it('are used for Llama', async () => {
    const found = await numbers(
      withConfig(llama, {
        num_key_value_heads: null,
        rms_norm_eps: undefined,
        max_position_embeddings: undefined,
        rope_scaling: undefined,
        rope_theta: undefined,
      }),
    );
    expect(found).toMatchObject({
      'llama.attention.head_count_kv': 4,
      'llama.attention.layer_norm_rms_epsilon': Math.fround(1e-6),
      'llama.context_length': 2048,
      'llama.rope.freq_base': 10_000,
    });
  });

  it('are used for Gemma 3, whose larger models have few keys', async () => {
    const found = await numbers(
      withConfig(gemma, {
        max_position_embeddings: undefined,
        rms_norm_eps: undefined,
        rope_theta: undefined,
        rope_local_base_freq: undefined,
        sliding_window: undefined,
        sliding_window_pattern: undefined,
        tie_word_embeddings: undefined,
      }),
    );
    expect(found).toMatchObject({
      'gemma3.context_length': 131_072,
      'gemma3.attention.layer_norm_rms_epsilon': Math.fround(1e-6),
      'gemma3.rope.freq_base': 1_000_000,
      'gemma3.rope.freq_base_swa': 10_000,
      'gemma3.attention.sliding_window': 4096,
    });
  });
});

describe('defaults of transformers for experts', () => {
  it('are used for Qwen 3, whose expert weights are not normalized by default', async () => {
    const gone = { norm_topk_prob: undefined, num_experts_per_tok: undefined, rms_norm_eps: undefined };
    const shape = { mlp_only_layers: undefined, decoder_sparse_step: undefined };
    const found = await numbers(withConfig(tinyFolder('qwen3moe'), { ...gone, ...shape }));
    expect(found).toMatchObject({
      'qwen3moe.expert_weights_norm': false,
      'qwen3moe.expert_used_count': 8,
      'qwen3moe.attention.layer_norm_rms_epsilon': Math.fround(1e-6),
    });
    expect(await numbers(tinyFolder('qwen3moe'))).not.toHaveProperty(['qwen3moe.expert_weights_norm']);
    const missing = { num_experts: undefined, num_local_experts: undefined };
    expect((await refusalOf(withConfig(tinyFolder('qwen3moe'), missing))).message).toContain(
      'is one of 8 experts, but config.json says 128',
    );
  });

  it('are used for gpt-oss, whose YaRN range is truncated to whole pairs by default', async () => {
    const { rope_scaling, ...config } = parsed(tinyFolder('gpt-oss')['config.json']);
    const { truncate: _, ...yarn } = rope_scaling as Record<string, unknown>;
    const gone = [
      'layer_types',
      'sliding_window',
      'swiglu_limit',
      'rms_norm_eps',
      'rope_theta',
      'attention_bias',
    ];
    const left = Object.fromEntries(Object.entries(config).filter(([key]) => !gone.includes(key)));
    const contents = { ...tinyFolder('gpt-oss'), 'config.json': json({ ...left, rope_scaling: yarn }) };
    expect(await numbers(contents)).toMatchObject({
      'gpt-oss.attention.sliding_window': 128,
      'gpt-oss.attention.layer_norm_rms_epsilon': Math.fround(1e-5),
      'gpt-oss.rope.freq_base': 150_000,
      'gpt-oss.rope.scaling.yarn_truncate': true,
    });
    // As transformers 5 writes it.
    const newer = { ...left, rope_parameters: { ...yarn, truncate: false, rope_theta: 5000 } };
    expect(await numbers({ ...contents, 'config.json': json(newer) })).toMatchObject({
      'gpt-oss.rope.freq_base': 5000,
      'gpt-oss.rope.scaling.type': 'yarn',
      'gpt-oss.rope.scaling.yarn_truncate': false,
    });
  });
});

describe('rotary embeddings', () => {
  const nested = {
    rope_theta: undefined,
    rope_local_base_freq: undefined,
    rope_parameters: {
      full_attention: { rope_type: 'linear', factor: 8, rope_theta: 1_000_000 },
      sliding_attention: { rope_type: 'default', rope_theta: 10_000 },
    },
  };

  it('are read for each layer kind from newer configurations', async () => {
    expect(await numbers(withConfig(gemma, nested))).toMatchObject({
      'gemma3.rope.freq_base': 1_000_000,
      'gemma3.rope.freq_base_swa': 10_000,
      'gemma3.rope.scaling.type': 'linear',
      'gemma3.rope.scaling.factor': 8,
    });
  });

  it('with YaRN keep their parameters', async () => {
    const yarn = {
      type: 'yarn',
      factor: 4,
      original_max_position_embeddings: 64,
      beta_fast: 32,
      beta_slow: 1,
      attention_factor: 1.5,
    };
    expect(await numbers(withConfig(tinyFolder('qwen2'), { rope_scaling: yarn }))).toMatchObject({
      'qwen2.rope.scaling.type': 'yarn',
      'qwen2.rope.scaling.factor': 4,
      'qwen2.rope.scaling.original_context_length': 64,
      'qwen2.rope.scaling.yarn_beta_fast': 32,
      'qwen2.rope.scaling.yarn_beta_slow': 1,
      'qwen2.rope.scaling.yarn_attn_factor': 1.5,
    });
  });
});

describe('a multimodal model', () => {
  it.each(['language_model.', 'model.language_model.'])(
    'is read as its text model below %s',
    async (prefix) => {
      const { architectures: _, model_type: __, ...text } = parsed(gemma['config.json']);
      const renamed = Object.entries(weightsOf(gemma)).map(
        ([name, tensor]) =>
          [
            name.replace(/^model\./, prefix === 'language_model.' ? `${prefix}model.` : prefix),
            tensor,
          ] as const,
      );
      const vision = prefix.startsWith('model.') ? 'model.vision_tower.x.weight' : 'vision_tower.x.weight';
      const whole = {
        ...gemma,
        'config.json': json({
          architectures: ['Gemma3ForConditionalGeneration'],
          model_type: 'gemma3',
          text_config: { ...text, architectures: null, model_type: 'gemma3_text' },
        }),
        'model.safetensors': safetensorsBytes({
          ...Object.fromEntries(renamed),
          [vision]: zeros('F32', [2, 3, 4], 4),
        }),
      };
      const [plain, seeing] = [await open(gemma), await open(whole)];
      expect([...seeing.metadata]).toEqual([...plain.metadata]);
      const shapes = (file: ModelFile) =>
        [...file.tensors.values()].map(({ name, type, shape }) => ({ name, type, shape }));
      expect(shapes(seeing)).toEqual(shapes(plain));
    },
  );
});

describe('chat templates', () => {
  const withTemplate = (template: unknown, more: Contents = {}): Contents => ({
    ...llama,
    'tokenizer_config.json': json({ ...parsed(llama['tokenizer_config.json']), chat_template: template }),
    ...more,
  });
  const templates = async (contents: Contents) =>
    Object.fromEntries(
      [...(await open(contents)).metadata].filter(([key]) => key.startsWith('tokenizer.chat_template')),
    );

  it('in a separate file win over tokenizer_config.json', async () => {
    const file = { 'chat_template.jinja': new TextEncoder().encode('own') };
    expect(await templates(withTemplate('old', file))).toEqual({ 'tokenizer.chat_template': 'own' });
    const older = { 'chat_template.json': json({ chat_template: 'older' }) };
    expect(await templates(withTemplate('old', older))).toEqual({ 'tokenizer.chat_template': 'older' });
  });

  it('in a list are stored by name', async () => {
    const list = [
      { name: 'default', template: 'plain' },
      { name: 'tool_use', template: 'tools' },
    ];
    expect(await templates(withTemplate(list))).toEqual({
      'tokenizer.chat_template': 'plain',
      'tokenizer.chat_template.tool_use': 'tools',
    });
  });

  it('may be absent', async () => {
    expect(await templates(withTemplate(undefined))).toEqual({});
  });
});

describe('a sliding window', () => {
  /** The window of each attention layer of the built model. */
  const windows = async (contents: Contents) => {
    const { units } = await buildGraph(await open(contents));
    return units.flatMap((unit) => (unit.op === 'attention' ? [unit.window] : []));
  };

  it('of Mistral applies to all layers: the configured one, 4096 by default, none for null', async () => {
    const mistral = (changes: object) => windows(withConfig(tinyFolder('mistral'), { ...changes }));
    expect(await mistral({ sliding_window: 64 })).toEqual([64]);
    // The window is not smaller than the context.
    expect(await mistral({})).toEqual([0]);
    expect(await mistral({ sliding_window: 256 })).toEqual([0]);
    const long = { max_position_embeddings: 32_768 };
    expect(await mistral(long)).toEqual([4096]);
    expect(await mistral({ ...long, sliding_window: null })).toEqual([0]);
  });

  it.each(['qwen2', 'qwen3'])(
    'of %s is in the layers that are listed, or in those behind the first ones, where it is switched on',
    async (name) => {
      const qwen = (changes: object) => windows(withConfig(tinyFolder(name), { ...changes }));
      const slides = { use_sliding_window: true, sliding_window: 32, max_window_layers: 1 };
      expect(await qwen(slides)).toEqual([0, 32]);
      expect(await qwen({ ...slides, max_window_layers: 0 })).toEqual([32, 32]);
      expect(await qwen({ ...slides, max_window_layers: 2 })).toEqual([0, 0]);
      expect(await qwen({ ...slides, use_sliding_window: false })).toEqual([0, 0]);
      expect(await qwen({ ...slides, sliding_window: null })).toEqual([0, 0]);
      const listed = { ...slides, layer_types: ['sliding_attention', 'full_attention'] };
      expect(await qwen(listed)).toEqual([32, 0]);
      expect(await qwen({ ...slides, sliding_window: undefined, max_position_embeddings: 8192 })).toEqual([
        0, 4096,
      ]);
    },
  );

  it('of Qwen 3 with experts applies to all layers when it is enabled', async () => {
    const qwen = (changes: object) => windows(withConfig(tinyFolder('qwen3moe'), { ...changes }));
    expect(await qwen({ use_sliding_window: true, sliding_window: 32, max_window_layers: 1 })).toEqual([
      32, 32,
    ]);
    expect(await qwen({ use_sliding_window: true, sliding_window: null })).toEqual([0, 0]);
    expect(await qwen({ sliding_window: 32 })).toEqual([0, 0]);
  });

  it('with an invalid size or layer list is rejected', async () => {
    const refused = async (name: string, changes: object) =>
      (await refusalOf(withConfig(tinyFolder(name), { use_sliding_window: true, ...changes }))).message;
    expect(await refused('mistral', { sliding_window: 0 })).toMatch(/sliding_window must be a whole number/);
    const slides = { sliding_window: 32, layer_types: ['sliding_attention'] };
    expect(await refused('qwen3', slides)).toMatch(
      /layer_types must be an array with sliding_attention or full/,
    );
    expect(await refused('qwen2', { sliding_window: 32, num_hidden_layers: 1e9 })).toMatch(
      /num_hidden_layers must be at most 65536, got 1000000000/,
    );
  });
});

describe('modules of sentence-transformers', () => {
  const bert = tinyFolder('bert');
  const gemmaEmbedding = tinyFolder('embedding-gemma');
  const pooling = (config: Record<string, unknown>): Contents => ({
    ...bert,
    '1_Pooling/config.json': json(config),
  });
  const poolingOf = async (contents: Contents) => (await open(contents)).metadata.get('bert.pooling_type');

  it('define the pooling with old and new keys', async () => {
    expect(await poolingOf(pooling({ pooling_mode_mean_tokens: true, pooling_mode_cls_token: false }))).toBe(
      1,
    );
    expect(await poolingOf(pooling({ pooling_mode_cls_token: true }))).toBe(2);
    expect(await poolingOf(pooling({ pooling_mode_lasttoken: true }))).toBe(3);
    expect(await poolingOf(pooling({ pooling_mode: 'cls' }))).toBe(2);
  });

  it.each([
    [
      'two ways at once',
      pooling({ pooling_mode_mean_tokens: true, pooling_mode_max_tokens: true }),
      /pooling by mean and max/,
    ],
    [
      'an unknown way',
      pooling({ pooling_mode: 'max' }),
      /pooling by max \(supported: one of mean, cls, lasttoken\)/,
    ],
    ['no way', pooling({}), /pooling by undefined/],
    [
      'another module',
      { ...bert, 'modules.json': json([{ type: 'a.models.LSTM', path: '1_LSTM' }]) },
      /the module LSTM/,
    ],
    [
      'a dense layer where there is none',
      { ...bert, 'modules.json': json([{ type: 'a.Dense', path: '2_Dense' }]) },
      /the module Dense/,
    ],
    [
      'a dense layer with an activation',
      {
        ...gemmaEmbedding,
        '2_Dense/config.json': json({ activation_function: 'torch.nn.modules.activation.Tanh' }),
      },
      /Tanh \(supported: Identity\)/,
    ],
  ])('are rejected with %s', async (_, contents, message) => {
    expect(await refusalOf(contents)).toEqual({
      code: 'unsupported_pooling',
      message: expect.stringMatching(message),
    });
  });

  it('must have their files', async () => {
    const { '1_Pooling/config.json': _, ...rest } = bert;
    expect(await refusalOf(rest)).toEqual({
      code: 'not_found',
      message: expect.stringContaining("no file '1_Pooling/config.json'"),
    });
    const { '3_Dense/model.safetensors': __, ...half } = gemmaEmbedding;
    expect((await refusalOf(half)).message).toContain("no file '3_Dense/model.safetensors'");
  });
});
