import type { ModelConfig } from '../config.ts';
import type { ModelFamily } from '../family.ts';
import { writeDecoder } from './common.ts';
import { decoderPrefixes, decoderTensors } from './decoder-tensors.ts';
import { writeExperts } from './write-experts.ts';
import { fullRope } from './rope.ts';

/** Checks that layers alternate, starting with a sliding window. GGUF has no key for this order. */
const checkLayers = (config: ModelConfig): void => {
  const kinds = config.get('layer_types');
  if (kinds === undefined) return;
  const expectedKind = (layer: number) => (layer % 2 === 0 ? 'sliding_attention' : 'full_attention');
  if (Array.isArray(kinds) && kinds.every((kind, layer) => kind === expectedKind(layer))) return;
  config.addProblem(
    'layer_types must alternate between sliding_attention and full_attention, sliding_attention first',
  );
};

const { 'layers.#.post_attention_layernorm': _, ...sharedTensors } = decoderTensors;

/** OpenAI's gpt-oss, with experts in MXFP4 (as published) or as floats. */
export const gptOss: ModelFamily = {
  architecture: 'gpt-oss',
  defaults: {
    num_local_experts: 128,
    num_experts_per_tok: 4,
    num_key_value_heads: 8,
    head_dim: 64,
    sliding_window: 128,
    max_position_embeddings: 131_072,
    rms_norm_eps: 1e-5,
    rope_theta: 150_000,
    tie_word_embeddings: false,
  },
  prefixes: decoderPrefixes,
  quantMethod: 'mxfp4',
  tensors: {
    ...sharedTensors,
    'layers.#.post_attention_layernorm': 'blk.#.post_attention_norm',
    'layers.#.mlp.router': { name: 'blk.#.ffn_gate_inp', asFloat: true },
  },
  unsuffixedTensors: { 'layers.#.self_attn.sinks': 'blk.#.attn_sinks.weight' },
  experts: { namePrefix: 'layers.#.mlp.experts.', gateUpOrder: 'turns', isTransposed: true },
  writeMetadata(config, writer) {
    checkLayers(config);
    // GGUF has no key for the clamp of the activation; the architecture implies it.
    config.allowOnly('swiglu_limit', 7);
    config.allowOnly('attention_bias', true);
    writeDecoder(config, writer);
    if (!config.object('rope_scaling', 'rope_parameters')) config.addProblem('rope_scaling is missing');
    // The transformers default is true, but a GGUF file of this architecture without the key means false.
    const rope = fullRope(config);
    if (rope.get('rope_type', 'type') === 'yarn' && rope.get('truncate') === undefined)
      writer.set('rope.scaling.yarn_truncate', true);
    writer.set('attention.sliding_window', config.count('sliding_window'));
    writeExperts(config, writer, config.count('intermediate_size'));
  },
};
