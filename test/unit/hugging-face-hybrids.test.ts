/** Folders of models with several layer kinds: supported and rejected configurations. */
import { describe, expect, it } from 'vitest';
import { decodeFloats } from '../../src/engine/formats/float-bytes.ts';
import { openHuggingFace } from '../../src/engine/formats/hugging-face/index.ts';
import type { ModelFile } from '../../src/engine/formats/model-file.ts';
import { memoryFiles } from '../support/byte-source.ts';
import { zeros } from '../support/safetensors-writer.ts';
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

const lfm2 = tinyFolder('lfm2');
const qwen = tinyFolder('qwen3.5');
const gemma = tinyFolder('gemma4');

type Changes = Record<string, unknown>;
/** The folder with changed keys of the text model's section; undefined removes a key. */
const withText = (contents: Contents, changes: Changes): Contents => {
  const { text_config: text, ...whole } = parsed(contents['config.json']);
  return {
    ...contents,
    'config.json': json({ ...whole, text_config: { ...(text as Changes), ...changes } }),
  };
};
/** The same with only the text model's section, as in a repository of the text model. */
const textOnly = (contents: Contents, architecture: string): Contents => {
  const { text_config: text } = parsed(contents['config.json']);
  return { ...contents, 'config.json': json({ ...(text as Changes), architectures: [architecture] }) };
};
const open = (contents: Contents) => openHuggingFace(memoryFiles(contents));
const numbers = async (contents: Contents) => Object.fromEntries((await open(contents)).metadata);
const names = ({ tensors }: ModelFile) => [...tensors.keys()].sort();

const valuesOf = async (file: ModelFile, name: string): Promise<number[]> => {
  const tensor = file.tensors.get(name)!;
  const [rows, columns] =
    tensor.shape.length === 1 ? [1, tensor.shape[0]!] : [tensor.shape[0]!, tensor.shape[1]!];
  const values = new Float32Array(rows * columns);
  decodeFloats(tensor.type as 'F32' | 'BF16', await file.readRows(tensor, 0, rows), values);
  return [...values];
};

/** Keys of the text model's section that are optional in published configurations. */
const without = (...keys: string[]): Changes => Object.fromEntries(keys.map((key) => [key, undefined]));

describe('LFM2', () => {
  it.each([
    [{ conv_bias: true }, /conv_bias true is not supported \(supported: false\)/],
    [{ tie_embedding: false }, /tie_embedding false is not supported/],
    [{ tie_word_embeddings: false }, /tie_word_embeddings false is not supported/],
    [{ full_attn_idxs: [5] }, /full_attn_idxs must list layers below 5, got \[5\]/],
    [{ full_attn_idxs: 1 }, /full_attn_idxs must list layers below 5, got 1/],
    [
      { layer_types: ['conv', 'mamba', 'conv', 'conv', 'conv'] },
      /layer_types must be an array with conv or full_attention/,
    ],
    [{ layer_types: ['conv'] }, /layer_types must be an array with conv or full_attention for each of the/],
    [{ conv_L_cache: 0 }, /conv_L_cache must be a whole number >= 1, got 0/],
    [{ block_multiple_of: 0 }, /block_multiple_of must be a whole number >= 1, got 0/],
    [{ rope_scaling: { type: 'dynamic', factor: 2 } }, /rope_scaling of type "dynamic"/],
    [{ num_hidden_layers: 1e9 }, /num_hidden_layers must be at most 65536, got 1000000000/],
  ])('with %o is another model than we compute', async (changes, message) => {
    expect(await refusalOf(withConfig(lfm2, changes))).toEqual({
      code: 'bad_config',
      message: expect.stringMatching(message),
    });
  });

  it('has what transformers fills in', async () => {
    const gone = without('norm_eps', 'rope_theta', 'conv_L_cache', 'max_position_embeddings', 'vocab_size');
    expect(await numbers(withConfig(lfm2, gone))).toMatchObject({
      'lfm2.attention.layer_norm_rms_epsilon': Math.fround(1e-5),
      'lfm2.rope.freq_base': 1_000_000,
      'lfm2.shortconv.l_cache': 3,
      'lfm2.context_length': 128_000,
      'lfm2.vocab_size': 65_536,
    });
  });

  it('reads the attention layers from any of three keys', async () => {
    const heads = async (changes: Changes) =>
      (await numbers(withConfig(lfm2, changes)))['lfm2.attention.head_count_kv'];
    expect(await heads({})).toEqual(Int32Array.of(0, 2, 0, 2, 0));
    const kinds = ['full_attention', 'conv', 'conv', 'conv', 'full_attention'];
    expect(await heads({ layer_types: kinds })).toEqual(Int32Array.of(2, 0, 0, 0, 2));
    expect(await heads({ full_attn_idxs: undefined })).toEqual(Int32Array.of(2, 2, 2, 2, 2));
  });

  it('has a feed-forward width of two thirds of the configured one, rounded up to a multiple', async () => {
    const width = async (changes: Changes) =>
      (await numbers(withConfig(lfm2, changes)))['lfm2.feed_forward_length'];
    expect(await width({})).toBe(64);
    expect(await width({ block_ff_dim: 97 })).toBe(64);
    expect(await width({ block_ff_dim: 99 })).toBe(96);
    expect(await width({ block_ffn_dim_multiplier: 1.5, block_multiple_of: 4 })).toBe(92);
    expect(await width({ block_ffn_dim_multiplier: null })).toBe(60);
    expect(await width({ block_multiple_of: undefined })).toBe(256);
    expect(await width({ block_auto_adjust_ff_dim: false })).toBe(90);
    expect(await width({ block_ff_dim: undefined, intermediate_size: 48, block_multiple_of: 1 })).toBe(32);
  });
});

describe('Qwen 3.5', () => {
  it.each([
    [{ attn_output_gate: false }, /attn_output_gate false is not supported/],
    [{ attention_bias: true }, /attention_bias true is not supported/],
    [{ hidden_act: 'gelu' }, /hidden_act "gelu" is not supported/],
    [
      { layer_types: ['full_attention'] },
      /layer_types must be an array with linear_attention or full_attention for each/,
    ],
    [
      { linear_num_value_heads: 3 },
      /linear_num_value_heads must be a multiple of linear_num_key_heads, got 3 and 2/,
    ],
    [{ linear_conv_kernel_dim: 0 }, /linear_conv_kernel_dim must be a whole number >= 1, got 0/],
    [
      { rope_parameters: { partial_rotary_factor: 2 } },
      /partial_rotary_factor must be above 0 and at most 1, got 2/,
    ],
    [{ rope_parameters: { rope_type: 'dynamic' } }, /rope_scaling of type "dynamic"/],
  ])('with %o is another model than we compute', async (changes, message) => {
    expect(await refusalOf(withText(qwen, changes))).toEqual({
      code: 'bad_config',
      message: expect.stringMatching(message),
    });
  });

  it('has what transformers fills in', async () => {
    const gone = without(
      'rope_parameters',
      'layer_types',
      'full_attention_interval',
      'head_dim',
      'rms_norm_eps',
    );
    expect(await numbers(withText(qwen, gone))).toMatchObject({
      'qwen35.rope.freq_base': 10_000,
      'qwen35.rope.dimension_count': 64,
      'qwen35.rope.dimension_sections': Int32Array.of(11, 11, 10, 0),
      'qwen35.attention.key_length': 256,
      'qwen35.attention.layer_norm_rms_epsilon': Math.fround(1e-6),
      'qwen35.attention.recurrent_layers': [true, true, true, false, true, true, true, false],
      'qwen35.full_attention_interval': 4,
    });
    const every = await numbers(withText(qwen, { layer_types: undefined, full_attention_interval: 2 }));
    expect(every['qwen35.attention.recurrent_layers']).toEqual(
      Array.from({ length: 4 }, () => [true, false]).flat(),
    );
    const older = { rope_parameters: { rope_theta: 5 }, partial_rotary_factor: 0.5 };
    expect(await numbers(withText(qwen, older))).toMatchObject({
      'qwen35.rope.freq_base': 5,
      'qwen35.rope.dimension_count': 16,
    });
  });

  it('is the same without the vision tower and the multi-token prediction layers', async () => {
    const whole = await open(qwen);
    const text = Object.entries(weightsOf(qwen)).filter(([name]) => !/^(model\.visual|mtp)\./.test(name));
    const gone = Object.fromEntries(Object.keys(weightsOf(qwen)).map((name) => [name, undefined]));
    const renamed = text.map(([name, tensor]) => [name.replace('model.language_model.', 'model.'), tensor]);
    const alone = withWeights(textOnly(qwen, 'Qwen3_5ForCausalLM'), {
      ...gone,
      ...Object.fromEntries(renamed),
    });
    const own = await open(alone);
    expect(names(own)).toEqual(names(whole));
    expect([...own.metadata]).toEqual([...whole.metadata]);
    for (const name of names(own)) expect(await valuesOf(own, name)).toEqual(await valuesOf(whole, name));
  });

  it('has its own output matrix when the embedding is not tied', async () => {
    const headless = withWeights(qwen, { 'lm_head.weight': undefined });
    expect((await refusalOf(headless)).message).toContain("there is no tensor 'lm_head.weight'");
    const tied = withText(headless, { tie_word_embeddings: true });
    expect(names(await open(tied))).not.toContain('output.weight');
  });

  it('does not reorder heads when every key head has one value head', async () => {
    const same = await open(withText(qwen, { linear_num_key_heads: 4, linear_key_head_dim: 16 }));
    const turned = await open(qwen);
    const at = 'model.language_model.layers.0.linear_attn';
    const stored = weightsOf(qwen);
    const given = (name: string, type: 'BF16' | 'F32') => {
      const { data } = stored[`${at}.${name}`]!;
      const values = new Float32Array(data.length / (type === 'F32' ? 4 : 2));
      decodeFloats(type, data, values);
      return [...values];
    };
    for (const [own, name] of [
      ['attn_qkv.weight', 'in_proj_qkv.weight'],
      ['attn_gate.weight', 'in_proj_z.weight'],
      ['ssm_alpha.weight', 'in_proj_a.weight'],
      ['ssm_beta.weight', 'in_proj_b.weight'],
      ['ssm_out.weight', 'out_proj.weight'],
      ['ssm_conv1d.weight', 'conv1d.weight'],
      ['ssm_dt.bias', 'dt_bias'],
    ] as const) {
      expect(await valuesOf(same, `blk.0.${own}`)).toEqual(given(name, 'BF16'));
      expect(await valuesOf(turned, `blk.0.${own}`)).not.toEqual(given(name, 'BF16'));
    }
    const decay = given('A_log', 'F32').map((value) => Math.fround(-Math.exp(value)));
    expect(await valuesOf(same, 'blk.0.ssm_a')).toEqual(decay);
  });

  it('is rejected when its tensors do not have the heads in config.json', async () => {
    const { code, message } = await refusalOf(withText(qwen, { linear_num_value_heads: 8 }));
    expect(code).toBe('bad_tensors');
    expect(message).toMatch(/A_log' has shape \[4\], but the heads in config\.json need 8; .* and 40 more/);
    expect(message).toMatch(/conv1d\.weight' has shape \[256, 4\], but the heads in config\.json need 384/);
    const conv = 'model.language_model.layers.0.linear_attn.conv1d.weight';
    const wide = withWeights(qwen, { [conv]: zeros('BF16', [256, 2, 4], 2) });
    expect((await refusalOf(wide)).message).toContain('has shape [256, 2, 4], neither a vector nor a matrix');
  });
});

describe('Gemma 4', () => {
  it.each([
    [{ hidden_activation: 'gelu' }, /hidden_activation "gelu" is not supported/],
    [{ attention_bias: true }, /attention_bias true is not supported/],
    [{ attention_k_eq_v: true }, /attention_k_eq_v true is not supported/],
    [{ enable_moe_block: true }, /enable_moe_block true is not supported/],
    [{ use_bidirectional_attention: 'all' }, /use_bidirectional_attention "all" is not supported/],
    [{ num_kv_shared_layers: 7 }, /num_kv_shared_layers must be a whole number >= 0 and below 7, got 7/],
    [{ num_kv_shared_layers: -1 }, /num_kv_shared_layers must be a whole number >= 0 and below 7, got -1/],
    [
      { layer_types: ['full_attention'] },
      /layer_types must be an array with sliding_attention or full_attention for each/,
    ],
    [{ sliding_window: 0 }, /sliding_window must be a whole number >= 1, got 0/],
    [{ hidden_size_per_layer_input: 'x' }, /hidden_size_per_layer_input must be a number, got "x"/],
    [
      {
        rope_parameters: {
          sliding_attention: { rope_type: 'linear', rope_theta: 1, partial_rotary_factor: 0.5 },
        },
      },
      /sliding_attention\.rope_type "linear" is not supported .*partial_rotary_factor 0\.5 is not supported/,
    ],
    [
      { rope_parameters: { full_attention: { rope_type: 'default', factor: 2 } } },
      /full_attention\.rope_type "default" .*factor 2 is not supported.*rope_theta is missing/,
    ],
  ])('with %o is another model than we compute', async (changes, message) => {
    expect(await refusalOf(withText(gemma, changes))).toEqual({
      code: 'bad_config',
      message: expect.stringMatching(message),
    });
  });

  it('has what transformers fills in', async () => {
    const gone = without('rope_parameters', 'layer_types', 'sliding_window', 'final_logit_softcapping');
    const sizes = without('head_dim', 'global_head_dim', 'num_kv_shared_layers', 'use_double_wide_mlp');
    const found = await numbers(
      withText(gemma, { ...gone, ...sizes, use_bidirectional_attention: 'vision' }),
    );
    expect(found).toMatchObject({
      'gemma4.rope.freq_base': 1_000_000,
      'gemma4.rope.freq_base_swa': 10_000,
      'gemma4.attention.sliding_window': 512,
      'gemma4.attention.sliding_window_pattern': [true, true, true, true, true, false, false],
      'gemma4.attention.key_length': 512,
      'gemma4.attention.key_length_swa': 256,
      'gemma4.attention.shared_kv_layers': 0,
      'gemma4.feed_forward_length': 32,
    });
    expect(found).not.toHaveProperty(['gemma4.final_logit_softcapping']);
    expect(await numbers(withText(gemma, without('hidden_size_per_layer_input')))).toMatchObject({
      'gemma4.embedding_length_per_layer_input': 256,
    });
  });

  it('has full attention in its last layer, whatever its kind', async () => {
    const kinds = Array.from({ length: 7 }, () => 'sliding_attention');
    const found = await numbers(withText(gemma, { layer_types: kinds }));
    const slides = [true, true, true, true, true, true, false];
    expect(found['gemma4.attention.sliding_window_pattern']).toEqual(slides);
  });

  it('rotates the configured fraction of a head in layers with full attention', async () => {
    const divisors = async (part: number) => {
      const full = { rope_type: 'proportional', rope_theta: 1e6, partial_rotary_factor: part };
      const { rope_parameters: ropes } = parsed(gemma['config.json']).text_config as {
        rope_parameters: Changes;
      };
      const file = await open(withText(gemma, { rope_parameters: { ...ropes, full_attention: full } }));
      return (await valuesOf(file, 'rope_freqs.weight')).filter((value) => value === 1).length;
    };
    expect(await divisors(0.25)).toBe(8);
    expect(await divisors(0.3)).toBe(9);
    expect(await divisors(1)).toBe(32);
  });

  it('is the same without the vision and audio towers', async () => {
    const whole = await open(gemma);
    const own = await open(textOnly(gemma, 'Gemma4ForCausalLM'));
    expect(names(own)).toEqual(names(whole));
    expect([...own.metadata]).toEqual([...whole.metadata].filter(([key]) => own.metadata.has(key)));
  });
});
