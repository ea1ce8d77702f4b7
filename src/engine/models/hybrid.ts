import { ModelFileError, type ModelFile } from '../formats/model-file.ts';
import type { CacheShape, Graph, LayerShape, Shape, TensorView } from '../graph/graph.ts';
import { GraphBuilder } from '../graph/graph-builder.ts';
import { Tensors } from './tensors.ts';

/** A layer of a model with several kinds of layers. */
export interface HybridLayer {
  readonly shape: LayerShape;
  /** Caches that the layer needs. */
  readonly caches: readonly CacheShape[];
  /**
   * Adds the layer's attention or its replacement: from `normed` to `context`.
   * @param cache index of the layer's first cache in the shape
   * @returns the projection of `context`
   */
  addMixer(g: GraphBuilder, tensors: Tensors, cache: number): Projection;
}

/** A product that is added to the residual stream. */
interface Projection {
  readonly slot: string;
  /** Name of the tensor without `.weight`. */
  readonly part: string;
}

interface HybridTraits {
  /** Shape from the file; sizes and caches of the layers are added to it. */
  readonly shape: Shape;
  readonly layers: readonly HybridLayer[];
  /** Names of norms without `.weight`, if they differ from those of Llama. */
  readonly ffnNorm?: string;
  readonly outputNorm?: string;
  readonly views?: ReadonlyMap<string, TensorView>;
}

/** Builds a pre-norm decoder whose layers have attention or a recurrent state, each with a gated feed-forward. */
export function buildHybrid(file: ModelFile, traits: HybridTraits): Graph {
  const { layers, ffnNorm = 'ffn_norm', outputNorm = 'output_norm' } = traits;
  const shape: Shape = {
    ...traits.shape,
    layers: layers.length,
    perLayer: layers.map((layer) => layer.shape),
    caches: layers.flatMap(({ caches }) => caches),
  };
  if (shape.perLayer?.every(({ heads }) => heads === 0)) {
    throw new ModelFileError(
      'unsupported_architecture',
      `${file.name}: no layer has attention, which is not supported`,
    );
  }
  const { width, vocabulary } = shape;
  const tensors = new Tensors(file);
  const g = new GraphBuilder(shape);
  g.embed(tensors.matrix('token_embd.weight', vocabulary, width));
  let cache = 0;
  for (const [n, layer] of layers.entries()) {
    const name = (part: string) => `blk.${n}.${part}`;
    const { feedForward, context } = layer.shape;
    g.layer(n);
    g.norm('attn.norm', tensors.vector(name('attn_norm.weight'), width));
    const { slot, part } = layer.addMixer(g, tensors, cache);
    cache += layer.caches.length;
    const out = tensors.layerLinear(name(part), width, context);
    g.projectAdd(slot, out.weight, 'context', { biases: out.biases });

    g.norm('ffn.norm', tensors.vector(name(`${ffnNorm}.weight`), width));
    const gateUp = tensors.gateUp(n, feedForward, width);
    g.gateUp(gateUp.weights, 'silu', gateUp.biases);
    const down = tensors.layerLinear(name('ffn_down'), width, feedForward);
    g.projectAdd('ffn.down', down.weight, 'activated', { biases: down.biases });
  }
  g.layer(undefined);
  g.norm('output.norm', tensors.vector(`${outputNorm}.weight`, width), 'hidden', 'last');
  g.logits(tensors.output(vocabulary, width));
  tensors.requireAll();
  return g.build(traits.views);
}
