import { supportedConvLengths } from '../../../kernels/short-conv.ts';
import { ModelFileError, type ModelFile } from '../formats/model-file.ts';
import { buildHybrid, type HybridLayer } from './hybrid.ts';
import { readLayerCount, readShape, readWholeByLayer, readWhole } from './metadata.ts';
import type { Architecture } from './registry.ts';
import { readRope } from './rope.ts';

/** LFM2: layers without key heads are gated short convolutions; the others have attention with head norms. */
export const lfm2: Architecture = {
  async build(file) {
    const kvHeadsOf = readWholeByLayer(file, 'attention.head_count_kv');
    const count = readLayerCount(file);
    const kvHeads = Array.from({ length: count }, (_, layer) => kvHeadsOf(layer));
    const shape = readShape(file, { ropes: [await readRope(file, 'neox')], kvHeads: Math.max(...kvHeads) });
    const layers = kvHeads.map((own, layer) =>
      own > 0 ? attentionLayer(file, shape, layer, own) : convolutionLayer(file, shape, layer),
    );
    // Converters have used either name for the last norm.
    const outputNorm = file.tensors.has('output_norm.weight') ? 'output_norm' : 'token_embd_norm';
    return buildHybrid(file, { shape, layers, outputNorm });
  },
};

type Shape = ReturnType<typeof readShape>;

function attentionLayer(
  file: ModelFile,
  { width, heads, headDim, feedForward }: Shape,
  layer: number,
  kvHeads: number,
): HybridLayer {
  if (heads % kvHeads !== 0) {
    throw new ModelFileError(
      'bad_metadata',
      `${file.name}: head_count ${heads} must be a multiple of head_count_kv of layer ${layer}, got ${kvHeads}`,
    );
  }
  return {
    shape: { heads, kvHeads, headDim, feedForward, context: heads * headDim, mixed: 0 },
    caches: [{ kind: 'pages', kvHeads, headDim }],
    addMixer(g, tensors, cache) {
      const rows = { q: heads * headDim, k: kvHeads * headDim, v: kvHeads * headDim };
      const { weights, biases } = tensors.qkv(layer, rows, width);
      g.qkv(weights, biases);
      for (const part of ['q', 'k'] as const)
        g.headNorm(part, tensors.vector(`blk.${layer}.attn_${part}_norm.weight`, headDim));
      g.attend({ rope: 0, window: 0, scale: headDim ** -0.5 }, cache);
      return { slot: 'attn.o', part: 'attn_output' };
    },
  };
}

function convolutionLayer(
  file: ModelFile,
  { width, headDim, feedForward }: Shape,
  layer: number,
): HybridLayer {
  const kernel = readWhole(file, 'shortconv.l_cache', [
    Math.min(...supportedConvLengths),
    Math.max(...supportedConvLengths),
  ]);
  const mixed = 3 * width;
  return {
    shape: { heads: 0, kvHeads: 0, headDim, feedForward, context: width, mixed },
    caches: [{ kind: 'state', floats: (kernel - 1) * width }],
    addMixer(g, tensors, cache) {
      const part = (name: string) => `blk.${layer}.shortconv.${name}`;
      const input = tensors.layerLinear(part('in_proj'), mixed, width);
      const [inBias] = input.biases;
      const inputs = { slot: 'conv.in', weight: input.weight, rows: mixed };
      g.product('conv.in', [inBias === undefined ? inputs : { ...inputs, bias: inBias }], {
        from: 'normed',
        to: 'mixed',
      });
      const weight = tensors.matrix(part('conv.weight'), width, kernel);
      const biases = tensors.has(part('conv.bias')) ? [tensors.vector(part('conv.bias'), width)] : [];
      const [bias] = biases;
      const sizes = { layer, mode: 'gated', channels: width, kernel, cache } as const;
      g.unit(
        'conv.mix',
        { op: 'short_conv', weight, ...sizes, ...(bias === undefined ? {} : { bias }) },
        { inputs: [`layers.${layer}.conv.in`], width, weights: [weight, ...biases] },
      );
      return { slot: 'conv.out', part: 'shortconv.out_proj' };
    },
  };
}
