import type { ModelFile } from '../formats/model-file.ts';
import type { Graph, Rope } from '../graph/graph.ts';
import { GraphBuilder } from '../graph/graph-builder.ts';
import { requireEmbedding } from './embedding.ts';
import { readNumber, readShape } from './metadata.ts';
import { Tensors } from './tensors.ts';

/** Differences between encoders of the BERT family. */
export interface EncoderTraits {
  /** Rotary embedding; undefined when positions are learned (`position_embd`). */
  readonly rope?: Rope;
  /** silu(gate) * up instead of gelu(up). */
  readonly gated: boolean;
}

/**
 * Builds a post-norm encoder: bidirectional attention, with the residual stream normalized after each addition.
 * Biases are added where the file has them; q, k and v may be one matrix (`attn_qkv`).
 */
export function buildEncoder(file: ModelFile, { rope, gated }: EncoderTraits): Graph {
  const shape = readShape(file, {
    ropes: rope ? [rope] : [],
    eps: readNumber(file, 'attention.layer_norm_epsilon'),
    embedding: requireEmbedding(file, { bidirectional: true }),
  });
  const { width, heads, kvHeads, headDim, feedForward, vocabulary, trainedContext } = shape;
  const tensors = new Tensors(file);
  const g = new GraphBuilder(shape);
  const norm = (slot: string, part: string) =>
    g.layerNorm(slot, tensors.vector(`${part}.weight`, width), tensors.vector(`${part}.bias`, width));

  g.embed(tensors.matrix('token_embd.weight', vocabulary, width));
  const tokenTypeRows = tensors.rows('token_types.weight');
  const tables = {
    ...(rope ? {} : { positions: tensors.matrix('position_embd.weight', trainedContext, width) }),
    ...(tokenTypeRows > 0 ? { tokenType: tensors.matrix('token_types.weight', tokenTypeRows, width) } : {}),
  };
  if (Object.keys(tables).length > 0) g.positions(tables);
  norm('embed.norm', 'token_embd_norm');
  for (let n = 0; n < shape.layers; n++) {
    const name = (part: string) => `blk.${n}.${part}`;
    g.layer(n);
    const { weights, biases } = tensors.qkv(
      n,
      { q: heads * headDim, k: kvHeads * headDim, v: kvHeads * headDim },
      width,
    );
    g.qkv(weights, biases, 'hidden');
    g.attend({ rope: rope ? 0 : undefined, window: 0, scale: headDim ** -0.5 });
    const output = tensors.linear(name('attn_output'), width, heads * headDim);
    g.projectAdd('attn.o', output.weight, 'context', output);
    norm('attn.norm', name('attn_output_norm'));
    const up = tensors.linear(name('ffn_up'), feedForward, width);
    if (gated) {
      const gate = tensors.linear(name('ffn_gate'), feedForward, width);
      g.gateUp([gate.weight, up.weight], 'silu', [...gate.biases, ...up.biases], 'hidden');
    } else {
      g.geluUp(up.weight, up.biases, 'hidden');
    }
    const down = tensors.linear(name('ffn_down'), width, feedForward);
    g.projectAdd('ffn.down', down.weight, 'activated', down);
    norm('ffn.norm', name('layer_output_norm'));
  }
  g.layer(undefined);
  g.pool('hidden');
  tensors.requireAll();
  return g.build();
}
