import type { ModelConfig } from '../hugging-face/config.ts';
import { headDimOf } from '../hugging-face/families/common.ts';

/** Rows of a matrix, or elements of a bias, that transformers stores as a separate tensor. */
export interface TensorPart {
  /** The transformers name, without `.weight` and `.bias`. */
  readonly name: string;
  readonly first: number;
  /** Undefined for all rows. */
  readonly rows: number | undefined;
}

/** MLC's names of Phi-3 tensors and the transformers names. */
const phi3Renames: readonly (readonly [RegExp, string])[] = [
  [/^transformer\.embd$/, 'model.embed_tokens'],
  [/^transformer\.norm$/, 'model.norm'],
  [/^transformer\.h\.(\d+)\.ln$/, 'model.layers.$1.input_layernorm'],
  [/^transformer\.h\.(\d+)\.mixer\.out_proj$/, 'model.layers.$1.self_attn.o_proj'],
  [/^transformer\.h\.(\d+)\.mixer\.(.+)$/, 'model.layers.$1.self_attn.$2'],
  [/^transformer\.h\.(\d+)\.(.+)$/, 'model.layers.$1.$2'],
];

/** Matrices that MLC fuses, and the rows of each part. */
const fusedMatrices: readonly (readonly [
  RegExp,
  (config: ModelConfig) => readonly (readonly [string, number])[],
])[] = [
  [
    /\.self_attn\.(qkv_proj|c_attn)$/,
    (config) => {
      const headDim = headDimOf(config);
      const heads = config.number('num_attention_heads');
      const kvHeads = config.optionalNumber('num_key_value_heads') ?? heads;
      return [
        ['self_attn.q_proj', heads * headDim],
        ['self_attn.k_proj', kvHeads * headDim],
        ['self_attn.v_proj', kvHeads * headDim],
      ];
    },
  ],
  [
    /\.mlp\.gate_up_proj$/,
    (config) => {
      const rows = config.number('intermediate_size');
      return [
        ['mlp.gate_proj', rows],
        ['mlp.up_proj', rows],
      ];
    },
  ],
];

/**
 * The transformers tensors that an MLC array holds; several when MLC fused them.
 * @param base MLC's name without suffix (`.q_weight`, `.weight`, `.bias`)
 * @param isStoredFused whether the architecture's original checkpoint has this matrix fused too
 */
export const splitFusedTensor = (
  base: string,
  config: ModelConfig,
  isStoredFused: (name: string) => boolean,
): TensorPart[] => {
  let name = base;
  for (const [pattern, replacement] of phi3Renames) name = name.replace(pattern, replacement);
  const fused = fusedMatrices.find(([pattern]) => pattern.test(name));
  if (!fused || isStoredFused(name)) return [{ name, first: 0, rows: undefined }];
  const [pattern, partsOfConfig] = fused;
  const namePrefix = name.replace(pattern, '');
  let first = 0;
  return partsOfConfig(config).map(([part, rows]) => {
    const tensorPart = { name: `${namePrefix}.${part}`, first, rows };
    first += rows;
    return tensorPart;
  });
};

/** The number of columns of a matrix. The array's shape does not tell, because MLC pads rows to whole groups. */
export const inputColumnsOf = (name: string, config: ModelConfig): number => {
  if (name.endsWith('.down_proj')) return config.number('intermediate_size');
  if (/\.(o_proj|out_proj)$/.test(name)) return config.number('num_attention_heads') * headDimOf(config);
  return config.number('hidden_size');
};
