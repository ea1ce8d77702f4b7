/** Gemma 4 on the CPU oracle, written from the model's definition. */
import {
  applyRope,
  attention,
  dequantizeRows,
  embed,
  gatedActivation,
  matmul,
  perLayerGate,
  perLayerJoin,
  type Rope,
  rmsNorm,
  roundToF16,
  softcap,
  type Values,
} from '../../kernels/reference/index.ts';
import type { ModelFile } from '../../src/engine/formats/model-file.ts';

interface Layer {
  readonly headDim: number;
  readonly kvHeads: number;
  readonly window: number;
  readonly rope: Rope;
  /** Index of the layer whose keys and values it reads. */
  readonly source: number;
}

type Weights = ReadonlyMap<string, { readonly values: Values; readonly shape: readonly number[] }>;

const plain = (values: ArrayLike<number>): number[] => Array.from(values, Number);

/** One sequence; its keys and values are rounded to f16, as the GPU keeps them. */
export class ReferenceGemma4 {
  readonly #number: (key: string, otherwise?: number) => number;
  readonly #weights: Weights;
  readonly #layers: readonly Layer[];
  readonly #keys = new Map<number, number[]>();
  readonly #values = new Map<number, number[]>();
  #position = 0;

  private constructor(file: ModelFile, weights: Weights) {
    const field = (key: string) => file.metadata.get(`gemma4.${key}`);
    const number = (key: string, otherwise?: number) => Number(field(key) ?? otherwise);
    this.#number = number;
    this.#weights = weights;
    const count = number('block_count');
    const first = count - number('attention.shared_kv_layers', 0);
    const near = plain(field('attention.sliding_window_pattern') as never).map(Boolean);
    const kv = field('attention.head_count_kv');
    const far: Rope = {
      style: 'neox',
      theta: number('rope.freq_base'),
      rotaryDim: number('rope.dimension_count'),
      freqFactors: weights.get('rope_freqs')?.values,
    };
    const local: Rope = {
      style: 'neox',
      theta: number('rope.freq_base_swa'),
      rotaryDim: number('rope.dimension_count_swa'),
    };
    this.#layers = Array.from({ length: count }, (_, n) => ({
      headDim: number(near[n] ? 'attention.key_length_swa' : 'attention.key_length'),
      kvHeads: typeof kv === 'object' ? Number(plain(kv as never)[n]) : Number(kv),
      window: near[n] ? number('attention.sliding_window') : Number.POSITIVE_INFINITY,
      rope: near[n] ? local : far,
      source: n < first ? n : near.slice(0, first).lastIndexOf(near[n] as boolean),
    }));
  }

  static async load(file: ModelFile): Promise<ReferenceGemma4> {
    const weights = new Map<string, { values: Values; shape: readonly number[] }>();
    for (const [name, info] of file.tensors) {
      const columns = info.shape.at(-1) as number;
      const rows = info.shape.slice(0, -1).reduce((product, size) => product * size, 1);
      const values = dequantizeRows(info.type, await file.readRows(info, 0, rows), { rows, columns });
      weights.set(name.replace(/\.weight$/, ''), { values, shape: info.shape });
    }
    return new ReferenceGemma4(file, weights);
  }

  step(token: number): Float64Array {
    return this.forward([token])[0] as Float64Array;
  }

  /** Appends tokens. @returns the logits of each, [vocab] */
  forward(tokens: readonly number[]): Float64Array[] {
    const rows = tokens.length;
    const width = this.#number('embedding_length');
    let x: Float64Array = embed(tokens, this.#of('token_embd'), width).map((one) => one * Math.sqrt(width));
    const inputs = this.#inputs(tokens, x);
    for (const [n, layer] of this.#layers.entries()) {
      x = this.#attend(n, layer, x, rows);
      const normed = this.#norm(x, `blk.${n}.ffn_norm`);
      const gate = this.#times(`blk.${n}.ffn_gate`, normed, rows);
      const gated = gatedActivation(gate, this.#times(`blk.${n}.ffn_up`, normed, rows), 'gelu_tanh');
      x = this.#add(x, this.#times(`blk.${n}.ffn_down`, gated, rows), `blk.${n}.post_ffw_norm`);
      if (inputs) {
        const columns = this.#number('embedding_length_per_layer_input');
        const shape = { columns, layers: this.#layers.length, layer: n };
        const own = perLayerGate(this.#times(`blk.${n}.inp_gate`, x, rows), inputs, shape);
        x = this.#add(x, this.#times(`blk.${n}.proj`, own, rows), `blk.${n}.post_norm`);
      }
      const scale = this.#weights.get(`blk.${n}.layer_output_scale`)?.values[0] ?? 1;
      x = x.map((value) => value * scale);
    }
    this.#position += rows;
    const logits = this.#times('token_embd', this.#norm(x, 'output_norm'), rows);
    const cap = this.#number('final_logit_softcapping', 0);
    const bounded = cap > 0 ? softcap(logits, cap) : logits;
    const vocab = logits.length / rows;
    return tokens.map((_, t) => bounded.slice(t * vocab, (t + 1) * vocab));
  }

  /** [tokens, layers, elements of an input] */
  #inputs(tokens: readonly number[], x: Float64Array): Float64Array | undefined {
    const columns = this.#number('embedding_length_per_layer_input', 0);
    if (columns === 0) return undefined;
    const width = this.#number('embedding_length');
    const projected = this.#times('per_layer_model_proj', x, tokens.length).map(
      (one) => one / Math.sqrt(width),
    );
    const rows = embed(tokens, this.#of('per_layer_token_embd'), this.#layers.length * columns);
    const traits = { eps: this.#eps, rowScale: Math.sqrt(columns), scale: Math.SQRT1_2 };
    return perLayerJoin(projected, rows, this.#of('per_layer_proj_norm'), traits);
  }

  #attend(n: number, layer: Layer, x: Float64Array, rows: number): Float64Array {
    const { headDim, kvHeads, window, rope, source } = layer;
    const heads = this.#number('attention.head_count');
    const positions = Array.from({ length: rows }, (_, t) => this.#position + t);
    const normed = this.#norm(x, `blk.${n}.attn_norm`);
    const turned = (part: 'q' | 'k', count: number) => {
      const product = this.#times(`blk.${n}.attn_${part}`, normed, rows);
      const own = this.#heads(product, headDim, this.#of(`blk.${n}.attn_${part}_norm`));
      return applyRope(own, positions, { heads: count, headDim }, rope);
    };
    if (source === n) {
      const values = this.#weights.has(`blk.${n}.attn_v`) ? `blk.${n}.attn_v` : `blk.${n}.attn_k`;
      const v = this.#heads(this.#times(values, normed, rows), headDim, new Float64Array(headDim).fill(1));
      this.#keys.set(n, [...(this.#keys.get(n) ?? []), ...turned('k', kvHeads).map(roundToF16)]);
      this.#values.set(n, [...(this.#values.get(n) ?? []), ...v.map(roundToF16)]);
    }
    const [keys, values] = [this.#keys, this.#values].map((kept) =>
      Float64Array.from(kept.get(source) ?? []),
    ) as [Float64Array, Float64Array];
    const shape = { heads, kvHeads, headDim, scale: 1, window };
    const attended = attention(turned('q', heads), positions, keys, values, shape);
    return this.#add(x, this.#times(`blk.${n}.attn_output`, attended, rows), `blk.${n}.post_attention_norm`);
  }

  get #eps(): number {
    return this.#number('attention.layer_norm_rms_epsilon');
  }

  #of(name: string): Values {
    const found = this.#weights.get(name);
    if (!found) throw new Error(`there is no tensor ${name}`);
    return found.values;
  }

  #times(name: string, x: Float64Array, tokens: number): Float64Array {
    const [outputs = 0, inputs = 0] = this.#weights.get(name)?.shape ?? [];
    return matmul(x, this.#of(name), { tokens, inputs, outputs });
  }

  #norm(x: Float64Array, name: string): Float64Array {
    const cols = this.#number('embedding_length');
    return rmsNorm(x, this.#of(name), { rows: x.length / cols, cols, eps: this.#eps });
  }

  #heads(x: Float64Array, headDim: number, weight: Values): Float64Array {
    return rmsNorm(x, weight, { rows: x.length / headDim, cols: headDim, eps: this.#eps });
  }

  #add(x: Float64Array, result: Float64Array, norm: string): Float64Array {
    const given = this.#norm(result, norm);
    return x.map((value, i) => value + given[i]!);
  }
}
