import { type ModelFile, ModelFileError } from '../formats/model-file.ts';
import type { Embedding, Graph, PairFormat, RankHead, Rope } from '../graph/graph.ts';
import { GraphBuilder } from '../graph/graph-builder.ts';
import { requireEmbedding } from './embedding.ts';
import { readNumber, readShape } from './metadata.ts';
import { hasRankHead, readRankHead } from './rank-head.ts';
import { Tensors } from './tensors.ts';

/** Differences between encoders of the BERT family. */
export interface EncoderTraits {
  /** Rotary embedding; undefined when positions are learned (`position_embd`). */
  readonly rope?: Rope;
  /** silu(gate) * up instead of gelu(up). */
  readonly gated: boolean;
  /** The file may have a classification head, which ranks documents. */
  readonly canRank?: boolean;
}

/**
 * Builds a post-norm encoder: bidirectional attention, with the residual stream normalized after each addition.
 * Biases are added where the file has them; q, k and v may be one matrix (`attn_qkv`).
 */
export async function buildEncoder(
  file: ModelFile,
  { rope, gated, canRank = false }: EncoderTraits,
): Promise<Graph> {
  const ranks = canRank && hasRankHead(file);
  const shape = readShape(file, {
    ropes: rope ? [rope] : [],
    eps: readNumber(file, 'attention.layer_norm_epsilon'),
    embedding: ranks ? rankedRow(file) : requireEmbedding(file, { bidirectional: true }),
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
    ...(tokenTypeRows > 0
      ? {
          tokenTypes: {
            weight: tensors.matrix('token_types.weight', tokenTypeRows, width),
            rows: tokenTypeRows,
          },
        }
      : {}),
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
  if (ranks) {
    requireDense(file);
    g.dense('cls', tensors.linear('cls', width, width), 'last', 'embedding', width);
  }
  tensors.requireAll();
  const rankHead = ranks ? await readHead(file) : undefined;
  return g.build(undefined, rankHead);
}

/** The state of the first token through the dense layer of the head. */
function rankedRow(file: ModelFile): Embedding {
  const dimensions = readNumber(file, 'embedding_length');
  return { pooling: 'cls', bidirectional: true, requiresWholeSequence: true, from: 'embedding', dimensions };
}

/** llama.cpp's converter leaves the dense layer (the pooler) of `BertForSequenceClassification` out. */
function requireDense(file: ModelFile): void {
  if (file.tensors.has('cls.weight')) return;
  if (!file.tensors.has('cls.output.weight'))
    throw new ModelFileError(
      'missing_tensor',
      `${file.name}: pooling_type 4 ranks documents, but the file has no classification head (cls.weight, cls.output.weight); ` +
        'to make embeddings, the pooling must be 1 mean, 2 cls or 3 last',
    );
  throw new ModelFileError(
    'missing_tensor',
    `${file.name}: the file has the last layer of a classification head (cls.output.weight) and not the dense layer ` +
      "before it (cls.weight), so its scores would be wrong; load the model's Hugging Face folder instead",
  );
}

/** BERT and XLM-RoBERTa have the same layers; the tokenizer tells which one the file is. */
const readHead = (file: ModelFile): Promise<RankHead> => {
  const pairs: PairFormat = file.metadata.get('tokenizer.ggml.model') === 'bert' ? 'bert' : 'xlm-roberta';
  return readRankHead(file, { pairs, activation: 'tanh' });
};
