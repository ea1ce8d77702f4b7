import type { ModelFile } from '../formats/model-file.ts';
import { GraphBuilder, type Graph, type Rope } from '../graph.ts';
import { requireTensors, shapeOf } from './metadata.ts';

/** How the members of the llama family differ. */
export interface DecoderTraits {
  ropeStyle: Rope['style'];
  /** Biases of q, k and v, when the file has them. */
  qkvBias: boolean;
  /** RMS norm of every head of q and k before the rotation. */
  qkNorm: boolean;
}

/** A pre-norm decoder: attention and a gated feed-forward, each added to the residual stream. */
export function buildDecoder(file: ModelFile, traits: DecoderTraits): Graph {
  const shape = shapeOf(file, { style: traits.ropeStyle });
  const { width, heads, kvHeads, headDim, feedForward, vocabulary } = shape;
  const has = (name: string) => file.tensors.has(name);
  const bias = traits.qkvBias && has('blk.0.attn_q.bias');
  const tied = !has('output.weight');
  const expected = new Map<string, readonly number[]>([
    ['token_embd.weight', [vocabulary, width]],
    ['output_norm.weight', [width]],
  ]);
  if (!tied) expected.set('output.weight', [vocabulary, width]);

  const g = new GraphBuilder(shape);
  g.embed('token_embd.weight');
  for (let n = 0; n < shape.layers; n++) {
    const name = (part: string) => `blk.${n}.${part}`;
    const rows = { q: heads * headDim, k: kvHeads * headDim, v: kvHeads * headDim };
    for (const part of ['q', 'k', 'v'] as const) {
      expected.set(name(`attn_${part}.weight`), [rows[part], width]);
      if (bias) expected.set(name(`attn_${part}.bias`), [rows[part]]);
    }
    expected.set(name('attn_norm.weight'), [width]);
    expected.set(name('attn_output.weight'), [width, heads * headDim]);
    expected.set(name('ffn_norm.weight'), [width]);
    expected.set(name('ffn_gate.weight'), [feedForward, width]);
    expected.set(name('ffn_up.weight'), [feedForward, width]);
    expected.set(name('ffn_down.weight'), [width, feedForward]);

    g.layer(n);
    g.norm('attn.norm', name('attn_norm.weight'));
    g.qkv(
      { q: name('attn_q.weight'), k: name('attn_k.weight'), v: name('attn_v.weight') },
      bias ? { q: name('attn_q.bias'), k: name('attn_k.bias'), v: name('attn_v.bias') } : undefined,
    );
    if (traits.qkNorm) {
      for (const part of ['q', 'k'] as const) {
        expected.set(name(`attn_${part}_norm.weight`), [headDim]);
        g.headNorm(part, name(`attn_${part}_norm.weight`));
      }
    }
    g.attend();
    g.projectAdd('attn.o', name('attn_output.weight'), 'context');
    g.norm('ffn.norm', name('ffn_norm.weight'));
    g.gateUp(name('ffn_gate.weight'), name('ffn_up.weight'));
    g.projectAdd('ffn.down', name('ffn_down.weight'), 'activated');
  }
  g.layer(undefined);
  g.norm('output.norm', 'output_norm.weight', 'hidden', 'last');
  g.logits(tied ? 'token_embd.weight' : 'output.weight');
  requireTensors(file, expected);
  return g.build();
}
