/** The tensors of a decoder with Llama's layer: two norms, separate q, k and v, separate gate and up. */
export const decoderTensors = {
  embed_tokens: 'token_embd',
  norm: 'output_norm',
  lm_head: 'output',
  'layers.#.input_layernorm': 'blk.#.attn_norm',
  'layers.#.self_attn.q_proj': 'blk.#.attn_q',
  'layers.#.self_attn.k_proj': 'blk.#.attn_k',
  'layers.#.self_attn.v_proj': 'blk.#.attn_v',
  'layers.#.self_attn.o_proj': 'blk.#.attn_output',
  'layers.#.post_attention_layernorm': 'blk.#.ffn_norm',
  'layers.#.mlp.gate_proj': 'blk.#.ffn_gate',
  'layers.#.mlp.up_proj': 'blk.#.ffn_up',
  'layers.#.mlp.down_proj': 'blk.#.ffn_down',
} as const;

/** Norms of q and k for each head. */
export const headNorms = {
  'layers.#.self_attn.q_norm': 'blk.#.attn_q_norm',
  'layers.#.self_attn.k_norm': 'blk.#.attn_k_norm',
} as const;

export const decoderPrefixes = ['model.'] as const;

/** Prefixes of the text model of a multimodal model, in several versions of transformers. */
export const multimodalPrefixes = [
  'model.language_model.',
  'language_model.model.',
  'language_model.',
  'model.',
] as const;
