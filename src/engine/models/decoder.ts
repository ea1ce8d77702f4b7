import type { ModelFile } from '../formats/model-file.ts';
import type { Embedding, Graph, RankHead, Rope } from '../graph/graph.ts';
import type { AttentionTraits } from '../ops/attention.ts';
import type { Activation } from '../ops/gated-activation.ts';
import { GraphBuilder } from '../graph/graph-builder.ts';
import { readEmbedding, addEmbeddingOutput } from './embedding.ts';
import { addExperts, type ExpertTraits, hasExperts } from './experts.ts';
import { readShape } from './metadata.ts';
import { Tensors } from './tensors.ts';

/** Rotary embedding and window of one layer. */
export type LayerTraits = Pick<AttentionTraits, 'rope' | 'window'>;

/** Differences between decoders of the Llama family. Defaults are those of Llama. */
export interface DecoderTraits {
  /** Every distinct rotary embedding of the model. */
  readonly ropes: readonly Rope[];
  /** By default, all layers use the first rotary embedding and full attention. */
  readonly layer?: (layer: number) => LayerTraits;
  /** RMS norm of every head of q and k before the rotation. */
  readonly qkNorm?: boolean;
  /** Activation of the feed-forward's gate. */
  readonly activation?: Activation;
  /** The outputs of attention and feed-forward are normalized before they are added to the residual stream. */
  readonly hasSandwichNorms?: boolean;
  readonly embeddingScale?: number | undefined;
  /** Factor for attention scores, instead of 1 / sqrt(head dimension). */
  readonly attentionScale?: number | undefined;
  /** Factor for what is added to the residual stream. */
  readonly residualScale?: number | undefined;
  readonly logitScale?: number;
  /** Tokens also attend to later tokens; the default is what the file says. */
  readonly bidirectional?: boolean;
  /** Each head has an attention sink logit (`attn_sinks`). */
  readonly sinks?: boolean;
  /** Name of the norm before the feed-forward, if not `ffn_norm`. */
  readonly ffnNorm?: string;
  /** Experts of the layers that have no dense feed-forward. */
  readonly experts?: ExpertTraits;
  /** The model ranks documents by the state of the last token. */
  readonly rankHead?: RankHead | undefined;
}

/**
 * Builds a pre-norm decoder: attention and a gated feed-forward, each added to the residual stream. Biases are added
 * where the file has them. q, k and v may be one matrix (`attn_qkv`), and gate and up another (`ffn_up`, with the
 * rows of gate first). A file that specifies a pooling gives a graph for embeddings.
 */
export function buildDecoder(file: ModelFile, traits: DecoderTraits): Graph {
  const {
    embeddingScale = 1,
    hasSandwichNorms = false,
    activation = 'silu',
    residualScale: scale = 1,
  } = traits;
  const embedding = traits.rankHead ? rankedRow(traits.rankHead) : readEmbedding(file, traits);
  const fileShape = readShape(file, {
    ropes: traits.ropes,
    embeddingScale,
    hasSandwichNorms,
    embedding,
    experts: traits.experts?.shape,
  });
  const tensors = new Tensors(file);
  const { experts } = traits;
  const usesExperts = Array.from({ length: fileShape.layers }, (_, n) => experts && hasExperts(tensors, n));
  // If all layers have experts, no memory is needed for dense feed-forwards.
  const shape = usesExperts.every(Boolean) ? { ...fileShape, feedForward: 0 } : fileShape;
  const { width, heads, kvHeads, headDim, feedForward, vocabulary } = shape;
  const { attentionScale = headDim ** -0.5 } = traits;
  const layerTraits = traits.layer ?? (() => ({ rope: 0, window: 0 }));
  const g = new GraphBuilder(shape);
  g.embed(tensors.matrix('token_embd.weight', vocabulary, width));
  for (let n = 0; n < shape.layers; n++) {
    const name = (part: string) => `blk.${n}.${part}`;
    g.layer(n);
    const project = (slot: string, part: string, columns: number, postNorm: string) => {
      const from = slot === 'attn.o' ? 'context' : 'activated';
      const { weight, biases } = tensors.linear(name(part), width, columns);
      if (!hasSandwichNorms) return g.projectAdd(slot, weight, from, { biases, scale });
      const norm = {
        slot: slot.replace(/\.\w+$/, '.post_norm'),
        weight: tensors.vector(name(postNorm), width),
      };
      return g.projectNormAdd(slot, weight, from, { ...norm, biases });
    };

    g.norm('attn.norm', tensors.vector(name('attn_norm.weight'), width));
    const rows = { q: heads * headDim, k: kvHeads * headDim, v: kvHeads * headDim };
    const { weights, biases } = tensors.qkv(n, rows, width);
    g.qkv(weights, biases);
    for (const part of traits.qkNorm ? (['q', 'k'] as const) : []) {
      g.headNorm(part, tensors.vector(name(`attn_${part}_norm.weight`), headDim));
    }
    const sinks = traits.sinks ? { sinks: tensors.vector(name('attn_sinks.weight'), heads) } : {};
    g.attend({ ...layerTraits(n), scale: attentionScale, ...sinks });
    project('attn.o', 'attn_output', heads * headDim, 'post_attention_norm.weight');

    g.norm('ffn.norm', tensors.vector(name(`${traits.ffnNorm ?? 'ffn_norm'}.weight`), width));
    if (experts && usesExperts[n]) {
      addExperts(g, tensors, { layer: n, width }, experts);
      continue;
    }
    const gateUp = tensors.gateUp(n, feedForward, width);
    g.gateUp(gateUp.weights, activation, gateUp.biases);
    project('ffn.down', 'ffn_down', feedForward, 'post_ffw_norm.weight');
  }
  g.layer(undefined);
  if (embedding) {
    addEmbeddingOutput(g, embedding, tensors, width);
  } else {
    g.norm('output.norm', tensors.vector('output_norm.weight', width), 'hidden', 'last');
    g.logits(tensors.output(vocabulary, width), traits.logitScale);
  }
  tensors.requireAll();
  return g.build(undefined, traits.rankHead);
}

const rankedRow = ({ weights }: RankHead): Embedding => ({
  pooling: 'last',
  bidirectional: false,
  requiresWholeSequence: false,
  from: 'last',
  dimensions: weights.length,
});
