import { supportedDeltaKeyDims } from '../../../kernels/delta-net.ts';
import { supportedConvLengths } from '../../../kernels/short-conv.ts';
import { ModelFileError, type ModelFile } from '../formats/model-file.ts';
import type { TensorView } from '../graph/graph.ts';
import type { GraphBuilder } from '../graph/graph-builder.ts';
import { buildHybrid, type HybridLayer } from './hybrid.ts';
import { metadataValue, readLayerPattern, readShape, readWhole } from './metadata.ts';
import type { Architecture } from './registry.ts';
import { readRope } from './rope.ts';
import type { Tensors } from './tensors.ts';

/**
 * Qwen 3.5, dense, text only. Every fourth layer has attention with head norms, partial rotation and an output gate;
 * the others are gated delta rules after a short convolution. Text has only one of the several position ids of a
 * token. Layers that predict further tokens (`nextn_predict_layers`, at the end) are left out.
 */
export const qwen35: Architecture = {
  async build(file) {
    const shape = readShape(file, { ropes: [await readRope(file, 'neox')] });
    const count =
      shape.layers - readWhole(file, 'nextn_predict_layers', [0, shape.layers - 1], { fallback: 0 });
    const hasState = readStateLayers(file);
    const views = new Map<string, TensorView>();
    const layers = Array.from({ length: count }, (_, layer) => {
      if (hasState(layer)) return deltaLayer(file, shape, layer);
      queryViews(shape, layer).forEach((view, name) => views.set(name, view));
      return attentionLayer(shape, layer);
    });
    return buildHybrid(file, { shape, layers, ffnNorm: 'post_attention_norm', views });
  },
};

type Shape = ReturnType<typeof readShape>;

/** Selects the layers with a recurrent state: from a list in the file, or all except every n-th layer. */
function readStateLayers(file: ModelFile): (layer: number) => boolean {
  const listKey = 'attention.recurrent_layers';
  if (metadataValue(file, listKey) !== undefined) return readLayerPattern(file, listKey, 0);
  return readLayerPattern(file, 'full_attention_interval', 4);
}

const queryName = (layer: number, part: 'query' | 'gate') => `blk.${layer}.attn_q.weight/${part}`;

/** Views of one matrix in which rows of query and gate alternate by head. */
const queryViews = ({ headDim }: Shape, layer: number) =>
  new Map(
    (['query', 'gate'] as const).map((part, index): [string, TensorView] => [
      queryName(layer, part),
      {
        kind: 'rows',
        tensor: `blk.${layer}.attn_q.weight`,
        first: index * headDim,
        rows: headDim,
        every: 2 * headDim,
      },
    ]),
  );

function attentionLayer({ width, heads, kvHeads, headDim, feedForward }: Shape, layer: number): HybridLayer {
  const values = heads * headDim;
  return {
    shape: { heads, kvHeads, headDim, feedForward, context: values, mixed: values },
    caches: [{ kind: 'pages', kvHeads, headDim }],
    addMixer(g, tensors, cache) {
      const name = (part: string) => `blk.${layer}.attn_${part}`;
      const id = (slot: string) => `layers.${layer}.attn.${slot}`;
      tensors.matrix(name('q.weight'), 2 * values, width);
      const [k, v] = ['k', 'v'].map((part) =>
        tensors.matrix(name(`${part}.weight`), kvHeads * headDim, width),
      ) as [string, string];
      const gate = { slot: 'attn.gate', weight: queryName(layer, 'gate'), rows: values };
      g.product('attn.gate', [gate], { from: 'normed', to: 'mixed' });
      g.qkv([queryName(layer, 'query'), k, v]);
      for (const part of ['q', 'k'] as const)
        g.headNorm(part, tensors.vector(name(`${part}_norm.weight`), headDim));
      g.attend({ rope: 0, window: 0, scale: headDim ** -0.5 }, cache);
      const node = { inputs: [id('attend'), id('gate')], width: values };
      g.unit('attn.gated', { op: 'sigmoid_gate', layer }, node);
      return { slot: 'attn.o', part: 'attn_output' };
    },
  };
}

/** Sizes of the delta rule from the metadata. */
function deltaSizes(file: ModelFile) {
  const max = 1 << 10;
  const kernel = readWhole(file, 'ssm.conv_kernel', [
    Math.min(...supportedConvLengths),
    Math.max(...supportedConvLengths),
  ]);
  const keyDim = readWhole(file, 'ssm.state_size', [1, max]);
  const keyHeads = readWhole(file, 'ssm.group_count', [1, max]);
  const valueHeads = readWhole(file, 'ssm.time_step_rank', [1, max]);
  const values = readWhole(file, 'ssm.inner_size', [1, 1 << 24]);
  const valueDim = values / valueHeads;
  const problems: string[] = [];
  if (!supportedDeltaKeyDims.includes(keyDim))
    problems.push(`ssm.state_size must be one of ${supportedDeltaKeyDims.join(', ')}, got ${keyDim}`);
  if (valueHeads % keyHeads !== 0)
    problems.push(`ssm.time_step_rank must be a multiple of ssm.group_count ${keyHeads}, got ${valueHeads}`);
  if (valueDim % 8 !== 0 || values % 32 !== 0) {
    problems.push(
      `ssm.inner_size must be a multiple of 32, and of 8 times ssm.time_step_rank ${valueHeads}, got ${values}`,
    );
  }
  if (problems.length > 0) throw new ModelFileError('bad_metadata', `${file.name}: ${problems.join('; ')}`);
  return { kernel, keyDim, keyHeads, valueHeads, valueDim };
}

function deltaLayer(file: ModelFile, { width, headDim, feedForward }: Shape, layer: number): HybridLayer {
  const sizes = deltaSizes(file);
  const { kernel, keyDim, keyHeads, valueHeads, valueDim } = sizes;
  const values = valueHeads * valueDim;
  const channels = 2 * keyHeads * keyDim + values;
  const used = channels + values + 2 * valueHeads;
  return {
    // The kernel reads rows in groups of four elements.
    shape: { heads: 0, kvHeads: 0, headDim, feedForward, context: values, mixed: Math.ceil(used / 4) * 4 },
    caches: [
      { kind: 'state', floats: (kernel - 1) * channels },
      { kind: 'state', floats: values * keyDim },
    ],
    addMixer(g, tensors, cache) {
      deltaInputs(g, tensors, { layer, width, channels, values, valueHeads });
      const name = (part: string) => `blk.${layer}.${part}`;
      const id = (slot: string) => `layers.${layer}.delta.${slot}`;
      const conv = tensors.matrix(name('ssm_conv1d.weight'), channels, kernel);
      g.unit(
        'delta.conv',
        { op: 'short_conv', layer, weight: conv, mode: 'silu', channels, kernel, cache },
        { inputs: [id('qkv')], width: channels, weights: [conv] },
      );
      const dt = tensors.vector(name('ssm_dt.bias'), valueHeads);
      const a = tensors.vector(name('ssm_a'), valueHeads);
      const { kernel: _, ...heads } = sizes;
      g.unit(
        'delta.rule',
        { op: 'delta_net', layer, dt, a, ...heads, cache: cache + 1 },
        { inputs: [id('conv'), id('beta'), id('alpha')], width: values, weights: [dt, a] },
      );
      const norm = tensors.vector(name('ssm_norm.weight'), valueDim);
      g.unit(
        'delta.norm',
        { op: 'gated_norm', layer, weight: norm, heads: valueHeads, headDim: valueDim, gateOffset: channels },
        { inputs: [id('rule'), id('z')], width: values, weights: [norm] },
      );
      return { slot: 'delta.out', part: 'ssm_out' };
    },
  };
}

/** Concatenates q, k and v, the gate, and beta and alpha. */
function deltaInputs(
  g: GraphBuilder,
  tensors: Tensors,
  sizes: { layer: number; width: number; channels: number; values: number; valueHeads: number },
): void {
  const { layer, width, channels, values, valueHeads } = sizes;
  const parts = [
    { slot: 'delta.qkv', tensor: 'attn_qkv', rows: channels },
    { slot: 'delta.z', tensor: 'attn_gate', rows: values },
    { slot: 'delta.beta', tensor: 'ssm_beta', rows: valueHeads },
    { slot: 'delta.alpha', tensor: 'ssm_alpha', rows: valueHeads },
  ].map(({ slot, tensor, rows }) => ({
    slot,
    rows,
    weight: tensors.matrix(`blk.${layer}.${tensor}.weight`, rows, width),
  }));
  g.product('delta.in', parts, { from: 'normed', to: 'mixed' });
}
