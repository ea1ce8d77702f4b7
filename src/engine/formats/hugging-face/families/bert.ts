import type { Config } from '../config.ts';
import type { Family } from '../family.ts';
import type { Keys } from '../keys.ts';
import { writeCommon, writeRope } from './common.ts';

const metadata = (config: Config, keys: Keys): void => {
  writeCommon(config, keys);
  keys.set('attention.causal', false);
  keys.entries.set('tokenizer.ggml.token_type_count', config.optional('type_vocab_size') ?? 1);
};

/** The pooler and the pre-training heads come after the layer that embeddings are taken from. */
const ignored = /^(bert\.)?(pooler|cls)\.|\bembeddings\.position_ids$/;

const embeddings = {
  'embeddings.word_embeddings': 'token_embd',
  'embeddings.token_type_embeddings': { name: 'token_types', float: true },
} as const;

/** BERT: bge, MiniLM, e5, gte. */
export const bert: Family = {
  architecture: 'bert',
  defaults: { max_position_embeddings: 512, layer_norm_eps: 1e-12, type_vocab_size: 2 },
  prefixes: ['bert.'],
  ignored,
  tensors: {
    ...embeddings,
    'embeddings.position_embeddings': { name: 'position_embd', float: true },
    'embeddings.LayerNorm': 'token_embd_norm',
    'encoder.layer.#.attention.self.query': 'blk.#.attn_q',
    'encoder.layer.#.attention.self.key': 'blk.#.attn_k',
    'encoder.layer.#.attention.self.value': 'blk.#.attn_v',
    'encoder.layer.#.attention.output.dense': 'blk.#.attn_output',
    'encoder.layer.#.attention.output.LayerNorm': 'blk.#.attn_output_norm',
    'encoder.layer.#.intermediate.dense': 'blk.#.ffn_up',
    'encoder.layer.#.output.dense': 'blk.#.ffn_down',
    'encoder.layer.#.output.LayerNorm': 'blk.#.layer_output_norm',
  },
  metadata(config, keys) {
    config.expect('hidden_act', 'gelu');
    config.expect('position_embedding_type', 'absolute');
    config.expect('is_decoder', false);
    metadata(config, keys);
  },
};

/** nomic-embed-text: BERT with rotary embeddings, without biases, with a gated feed-forward. */
export const nomicBert: Family = {
  architecture: 'nomic-bert',
  defaults: {
    max_trained_positions: 2048,
    layer_norm_epsilon: 1e-12,
    rotary_emb_base: 1000,
    type_vocab_size: 2,
  },
  prefixes: ['bert.'],
  ignored,
  tensors: {
    ...embeddings,
    emb_ln: 'token_embd_norm',
    'encoder.layers.#.attn.Wqkv': 'blk.#.attn_qkv',
    'encoder.layers.#.attn.out_proj': 'blk.#.attn_output',
    'encoder.layers.#.norm1': 'blk.#.attn_output_norm',
    'encoder.layers.#.mlp.fc11': 'blk.#.ffn_up',
    'encoder.layers.#.mlp.fc12': 'blk.#.ffn_gate',
    'encoder.layers.#.mlp.fc2': 'blk.#.ffn_down',
    'encoder.layers.#.norm2': 'blk.#.layer_output_norm',
  },
  metadata(config, keys) {
    config.expect('activation_function', 'swiglu');
    config.expect('prenorm', false);
    config.expect('rotary_emb_fraction', 1);
    config.expect('rotary_emb_interleaved', false);
    config.expect('rotary_emb_scale_base');
    config.expect('moe_every_n_layers', 0);
    config.expect('causal', false);
    metadata(config, keys);
    writeRope(config, keys);
    // Longer contexts are possible, but the model was not trained for them.
    const positions = config.number('max_position_embeddings', 'n_positions');
    keys.set('context_length', Math.min(positions, config.number('max_trained_positions')));
  },
};
