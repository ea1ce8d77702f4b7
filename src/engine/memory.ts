import { pageTokens } from '../../kernels/rope-kv-write.ts';
import { attentionTile } from '../../kernels/attention.ts';
import { blockColumns } from '../../kernels/formats.ts';
import { sampleWords } from '../../kernels/sample.ts';
import { BufferPool } from './gpu/buffers.ts';
import type { BufferName, Shape } from './graph.ts';
import { ropeTable } from './rope-table.ts';
import { stepLayout, stepSamples, type StepLayout } from './step.ts';

/** Positions of the context that one attention workgroup reads, where the capacity does not say. */
const usualSplitTokens = 512;

/** How much one engine holds at once. */
export interface Capacity {
  /** Tokens a sequence may hold. */
  readonly context: number;
  /** Sequences at once. */
  readonly slots: number;
  /** Tokens a step may hold. */
  readonly stepTokens: number;
  /** Pages of the KV cache. */
  readonly pages: number;
  /** Positions of the context that one attention workgroup reads; longer contexts are split while decoding. */
  readonly splitTokens?: number;
}

export const splitTokensOf = (capacity: Pick<Capacity, 'splitTokens'>): number =>
  capacity.splitTokens ?? usualSplitTokens;

/** Everything on the GPU that is not a weight. */
export interface Memory {
  readonly pool: BufferPool;
  readonly capacity: Capacity;
  readonly layout: StepLayout;
  /** Header, samples, tiles and tokens of the step. */
  readonly step: GPUBuffer;
  readonly samplesBytes: number;
  readonly singleTilesBytes: number;
  readonly wideTilesBytes: number;
  readonly tileTokens: number;
  readonly buffers: Readonly<Record<BufferName, GPUBuffer>>;
  /** Elements from row to row. */
  readonly strides: Readonly<Record<BufferName, number>>;
  readonly ropeTable: GPUBuffer;
  /** [slots, maxPages] */
  readonly pageTable: GPUBuffer;
  readonly maxPages: number;
  readonly splitTokens: number;
  readonly maxSplits: number;
  /** [slots, heads, maxSplits, headDim + 2] f32 */
  readonly partial: GPUBuffer;
  /** [slots]: the token drawn last. */
  readonly sampled: GPUBuffer;
  /** [samples of a step]: tokens drawn in it. */
  readonly results: GPUBuffer;
  /** [slots, vocabulary] each. */
  readonly bias: GPUBuffer;
  readonly seen: GPUBuffer;
  /** One page of every layer, k then v: WebGPU copies only between different buffers. */
  readonly pageCopy: GPUBuffer;
  /** [tokens, parts of the width]: sums of squares of `hidden`, for the next norm. */
  readonly squares: GPUBuffer;
  /** Bound where a kernel's optional input or an output is absent. */
  readonly nothing: GPUBuffer;
  readonly nowhere: GPUBuffer;
  readonly aside: GPUBuffer;
  /** [pages, kvHeads, pageTokens, headDim] f16 each. */
  cacheOf(layer: number): { k: GPUBuffer; v: GPUBuffer };
}

/** Bytes that one page takes over all layers. */
export function pageBytes(shape: Shape): number {
  return shape.layers * 2 * pageTokens * shape.kvHeads * shape.headDim * 2;
}

/** Bytes of one layer's k (or v) pages: one binding. */
export function pageBytesPerBinding(shape: Shape): number {
  return pageTokens * shape.kvHeads * shape.headDim * 2;
}

const roundUp = (value: number, to: number) => Math.ceil(value / to) * to;
/** Columns whose squares are summed together, at least. */
const leastPart = 4;
/** Matmuls read whole groups of columns, also past the last token. */
const rowPadding = 8;

function stridesOf(shape: Shape): Record<BufferName, number> {
  return {
    hidden: shape.width,
    normed: shape.width,
    qkv: (shape.heads + 2 * shape.kvHeads) * shape.headDim,
    context: shape.heads * shape.headDim,
    gate_up: 2 * shape.feedForward,
    activated: roundUp(shape.feedForward, blockColumns),
    last: shape.width,
    logits: shape.vocabulary,
  };
}

/** Bytes of everything but weights and KV pages. */
export function workBytes(shape: Shape, capacity: Omit<Capacity, 'pages'>): number {
  const strides = stridesOf(shape);
  const rows = roundUp(capacity.stepTokens, rowPadding);
  const { hidden, normed, qkv, context, gate_up, activated, last, logits } = strides;
  const squares = Math.ceil(shape.width / leastPart);
  const activations = rows * (hidden + normed + squares + qkv + context + gate_up + activated) * 4;
  const sampled = roundUp(stepSamples(capacity.slots), rowPadding) * (last + logits) * 4;
  const perSlot = capacity.slots * shape.vocabulary * 8;
  const splits = Math.ceil(capacity.context / splitTokensOf(capacity));
  const partial = capacity.slots * shape.heads * splits * (shape.headDim + 2) * 4;
  return (
    activations + sampled + perSlot + partial + pageBytes(shape) + capacity.context * shape.rope.rotary * 4
  );
}

export function allocateMemory(device: GPUDevice, shape: Shape, capacity: Capacity): Memory {
  const pool = new BufferPool(device);
  const { tile } = attentionTile(shape.heads, shape.kvHeads);
  const { slots, stepTokens, context } = capacity;
  const layout = stepLayout({ slots, tokens: stepTokens, tileTokens: tile });
  const step = pool.shared('step', layout.sizeBytes);
  const strides = stridesOf(shape);
  const tokenRows = roundUp(stepTokens, rowPadding);
  const samples = stepSamples(slots);
  const sampleRows = roundUp(samples, rowPadding);
  const buffers = Object.fromEntries(
    Object.entries(strides).map(([name, stride]) => {
      const rows = name === 'last' || name === 'logits' ? sampleRows : tokenRows;
      return [name, pool.storage(name, rows * stride * 4)];
    }),
  ) as Record<BufferName, GPUBuffer>;

  const maxPages = Math.ceil(context / pageTokens);
  const splitTokens = splitTokensOf(capacity);
  const maxSplits = Math.ceil(context / splitTokens);
  const caches = Array.from({ length: shape.layers }, (_, layer) => ({
    k: pool.storage(`kv.layer${layer}.k`, capacity.pages * pageBytesPerBinding(shape)),
    v: pool.storage(`kv.layer${layer}.v`, capacity.pages * pageBytesPerBinding(shape)),
  }));
  const table = ropeTable(shape.rope, context);
  const ropeBuffer = pool.storage('rope.table', table.byteLength);
  device.queue.writeBuffer(ropeBuffer, 0, table);

  return {
    pool,
    capacity,
    layout,
    step,
    samplesBytes: samples * sampleWords * 4,
    singleTilesBytes: layout.wideTiles - layout.singleTiles,
    wideTilesBytes: layout.tokens - layout.wideTiles,
    tileTokens: tile,
    buffers,
    strides,
    ropeTable: ropeBuffer,
    pageTable: pool.storage('page_table', slots * maxPages * 4),
    maxPages,
    splitTokens,
    maxSplits,
    partial: pool.storage('attention.partial', slots * shape.heads * maxSplits * (shape.headDim + 2) * 4),
    sampled: pool.storage('sampled', slots * 4),
    results: pool.storage('results', samples * 4),
    bias: pool.storage('sample.bias', slots * shape.vocabulary * 4),
    seen: pool.storage('sample.seen', slots * shape.vocabulary * 4),
    pageCopy: pool.storage('kv.page_copy', pageBytes(shape)),
    squares: pool.storage('squares', tokenRows * Math.ceil(shape.width / leastPart) * 4),
    nothing: pool.storage('nothing', 16),
    nowhere: pool.storage('nowhere', 16),
    aside: pool.storage('aside', 16),
    cacheOf(layer) {
      const cache = caches[layer];
      if (!cache) throw new Error(`no KV cache for layer ${layer}`);
      return cache;
    },
  };
}
