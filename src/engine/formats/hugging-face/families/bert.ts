import type { ModelConfig } from '../config.ts';
import type { ModelFamily } from '../family.ts';
import type { MetadataWriter } from '../metadata-writer.ts';
import { writeCommon, writeRope } from './common.ts';
import { writeRankHead } from './rank-head.ts';

const writeMetadata = (config: ModelConfig, writer: MetadataWriter): void => {
  writeCommon(config, writer);
  writer.set('attention.causal', false);
  writer.entries.set('tokenizer.ggml.token_type_count', config.optionalNumber('type_vocab_size') ?? 1);
};

/** The pooler and the pre-training heads come after the layer that embeddings are taken from. */
const ignoredTensors = /^(bert\.)?(pooler|cls)\.|\bembeddings\.position_ids$/;

const embeddings = {
  'embeddings.word_embeddings': 'token_embd',
  'embeddings.token_type_embeddings': { name: 'token_types', asFloat: true },
} as const;

const encoderTensors = {
  ...embeddings,
  'embeddings.position_embeddings': { name: 'position_embd', asFloat: true },
  'embeddings.LayerNorm': 'token_embd_norm',
  'encoder.layer.#.attention.self.query': 'blk.#.attn_q',
  'encoder.layer.#.attention.self.key': 'blk.#.attn_k',
  'encoder.layer.#.attention.self.value': 'blk.#.attn_v',
  'encoder.layer.#.attention.output.dense': 'blk.#.attn_output',
  'encoder.layer.#.attention.output.LayerNorm': 'blk.#.attn_output_norm',
  'encoder.layer.#.intermediate.dense': 'blk.#.ffn_up',
  'encoder.layer.#.output.dense': 'blk.#.ffn_down',
  'encoder.layer.#.output.LayerNorm': 'blk.#.layer_output_norm',
} as const;

/** Refuses what the graph of BERT and XLM-RoBERTa does not compute. */
const allowOnlyLearnedPositions = (config: ModelConfig): void => {
  config.allowOnly('hidden_act', 'gelu');
  config.allowOnly('position_embedding_type', 'absolute');
  config.allowOnly('is_decoder', false);
};

/** BERT: bge, MiniLM, e5, gte. */
export const bert: ModelFamily = {
  architecture: 'bert',
  defaults: { max_position_embeddings: 512, layer_norm_eps: 1e-12, type_vocab_size: 2 },
  prefixes: ['bert.'],
  ignoredTensors,
  tensors: encoderTensors,
  writeMetadata(config, writer) {
    allowOnlyLearnedPositions(config);
    writeMetadata(config, writer);
  },
};

/** BERT with a classification head: MiniLM cross-encoders. The pooler is the dense layer of the head. */
export const bertReranker: ModelFamily = {
  ...bert,
  ignoredTensors: /^(bert\.)?cls\.|\bembeddings\.position_ids$/,
  tensors: { ...encoderTensors, 'pooler.dense': 'cls', classifier: 'cls.output' },
  writeMetadata(config, writer) {
    bert.writeMetadata(config, writer);
    writeRankHead(config, writer);
  },
};

/** Positions are counted from the padding token's id plus one; the rows before that are never used. */
const unusedPositions = (config: ModelConfig): number => config.number('pad_token_id') + 1;

/** XLM-RoBERTa: bge-m3, multilingual e5. GGUF's BERT, without the unused positions. */
export const xlmRoberta: ModelFamily = {
  architecture: 'bert',
  defaults: { max_position_embeddings: 512, layer_norm_eps: 1e-12, type_vocab_size: 2, pad_token_id: 1 },
  prefixes: ['roberta.'],
  ignoredTensors: /^(roberta\.)?pooler\.|^lm_head\.|\bembeddings\.position_ids$/,
  tensors: {
    ...encoderTensors,
    'embeddings.position_embeddings': { name: 'position_embd', asFloat: true, skippedRows: unusedPositions },
  },
  writeMetadata(config, writer) {
    allowOnlyLearnedPositions(config);
    writeMetadata(config, writer);
    writer.set('context_length', config.count('max_position_embeddings') - unusedPositions(config));
  },
};

/** XLM-RoBERTa with a classification head: bge-reranker. */
export const xlmRobertaReranker: ModelFamily = {
  ...xlmRoberta,
  tensors: { ...xlmRoberta.tensors, 'classifier.dense': 'cls', 'classifier.out_proj': 'cls.output' },
  writeMetadata(config, writer) {
    xlmRoberta.writeMetadata(config, writer);
    writeRankHead(config, writer);
  },
};

/** nomic-embed-text: BERT with rotary embeddings, without biases, with a gated feed-forward. */
export const nomicBert: ModelFamily = {
  architecture: 'nomic-bert',
  defaults: {
    max_trained_positions: 2048,
    layer_norm_epsilon: 1e-12,
    rotary_emb_base: 1000,
    type_vocab_size: 2,
  },
  prefixes: ['bert.'],
  ignoredTensors,
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
  writeMetadata(config, writer) {
    config.allowOnly('activation_function', 'swiglu');
    config.allowOnly('prenorm', false);
    config.allowOnly('rotary_emb_fraction', 1);
    config.allowOnly('rotary_emb_interleaved', false);
    config.allowOnly('rotary_emb_scale_base');
    config.allowOnly('moe_every_n_layers', 0);
    config.allowOnly('causal', false);
    writeMetadata(config, writer);
    writeRope(config, writer);
    // Longer contexts are possible, but the model was not trained for them.
    const positions = config.number('max_position_embeddings', 'n_positions');
    writer.set('context_length', Math.min(positions, config.number('max_trained_positions')));
  },
};
