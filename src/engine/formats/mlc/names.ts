import type { Config } from '../hugging-face/config.ts';
import { headDimOf } from '../hugging-face/families/common.ts';

/** Rows of a matrix, or elements of a bias, that are a tensor of their own to transformers. */
export interface Part {
  /** As transformers calls it, without `.weight` and `.bias`. */
  readonly name: string;
  readonly first: number;
  /** Undefined for all. */
  readonly rows: number | undefined;
}

/** Phi-3 has names of its own. */
const renamed: readonly (readonly [RegExp, string])[] = [
  [/^transformer\.embd$/, 'model.embed_tokens'],
  [/^transformer\.norm$/, 'model.norm'],
  [/^transformer\.h\.(\d+)\.ln$/, 'model.layers.$1.input_layernorm'],
  [/^transformer\.h\.(\d+)\.mixer\.out_proj$/, 'model.layers.$1.self_attn.o_proj'],
  [/^transformer\.h\.(\d+)\.mixer\.(.+)$/, 'model.layers.$1.self_attn.$2'],
  [/^transformer\.h\.(\d+)\.(.+)$/, 'model.layers.$1.$2'],
];

/** Which parts a matrix that MLC has joined falls into. */
const joined: readonly (readonly [RegExp, (config: Config) => readonly (readonly [string, number])[]])[] = [
  [
    /\.self_attn\.(qkv_proj|c_attn)$/,
    (config) => {
      const headDim = headDimOf(config);
      const heads = config.number('num_attention_heads');
      const kvHeads = config.optional('num_key_value_heads') ?? heads;
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
 * What an array of MLC is called by transformers, in parts where MLC joined several.
 * @param base without the kind of content (`.q_weight`, `.weight`, `.bias`)
 * @param keepsJoined the architecture's own checkpoint has this matrix joined, too
 */
export const partsOf = (base: string, config: Config, keepsJoined: (name: string) => boolean): Part[] => {
  let name = base;
  for (const [pattern, replacement] of renamed) name = name.replace(pattern, replacement);
  const found = joined.find(([pattern]) => pattern.test(name));
  if (!found || keepsJoined(name)) return [{ name, first: 0, rows: undefined }];
  const [pattern, split] = found;
  const before = name.replace(pattern, '');
  let first = 0;
  return split(config).map(([part, rows]) => {
    const one = { name: `${before}.${part}`, first, rows };
    first += rows;
    return one;
  });
};

/** Columns of a matrix: what goes into it. MLC's groups may be wider than the row. */
export const inputsOf = (name: string, config: Config): number => {
  if (name.endsWith('.down_proj')) return config.number('intermediate_size');
  if (/\.(o_proj|out_proj)$/.test(name)) return config.number('num_attention_heads') * headDimOf(config);
  return config.number('hidden_size');
};
