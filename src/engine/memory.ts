import { pageTokens } from '../../kernels/rope-kv-write.ts';
import { attentionTile } from '../../kernels/attention.ts';
import { blockColumns } from '../../kernels/formats.ts';
import { logprobWords } from '../../kernels/logprobs.ts';
import { maskWords, sampleWords } from '../../kernels/sample.ts';
import type { BufferPool } from './gpu/buffers.ts';
import { allocateExperts, expertBytes, type ExpertMemory } from './expert-memory.ts';
import {
  type BufferName,
  type CacheShape,
  cacheShapes,
  type LayerShape,
  layerShape,
  type Shape,
} from './graph.ts';
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
  /** States of layers that are kept for texts to come, beside those of the slots. */
  readonly keptStates?: number;
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
  /** [context, rotary / 2] of (cos, sin), by index of the shape's `ropes`. */
  readonly ropeTables: readonly GPUBuffer[];
  /** [slots, maxPages] */
  readonly pageTable: GPUBuffer;
  readonly maxPages: number;
  readonly splitTokens: number;
  readonly maxSplits: number;
  /** [slots, heads, maxSplits, headDim + 2] f32 */
  readonly partial: GPUBuffer;
  /** [slots + 1]: the token drawn last; the last slot is nobody's. */
  readonly sampled: GPUBuffer;
  /** [samples of a step]: tokens drawn in it. */
  readonly results: GPUBuffer;
  /** [slots, vocabulary] each. */
  readonly bias: GPUBuffer;
  readonly seen: GPUBuffer;
  /** [slots, words of a mask]: a bit a token, set where it may be drawn. */
  readonly masks: GPUBuffer;
  /** The logits as the model made them, in steps that want log probabilities: [samples of a step, vocabulary]. */
  readonly rawLogits: GPUBuffer;
  /** [samples of a step, words of log probabilities] */
  readonly logprobs: GPUBuffer;
  /** One page of every layer, k then v: WebGPU copies only between different buffers. */
  readonly pageCopy: GPUBuffer;
  /** [tokens, parts of the width]: sums of squares of `hidden`, for the next norm. */
  readonly squares: GPUBuffer;
  /** Bound where a kernel's optional input or an output is absent. */
  readonly nothing: GPUBuffer;
  readonly nowhere: GPUBuffer;
  readonly aside: GPUBuffer;
  /** Where tokens go that chose experts. */
  readonly experts: ExpertMemory | undefined;
  /** By index of the shape's caches. */
  readonly caches: readonly LayerCache[];
}

/** What a layer keeps, on the GPU. */
export type LayerCache =
  /** [pages, kvHeads, pageTokens, headDim] f16 each. */
  | { readonly kind: 'pages'; readonly k: GPUBuffer; readonly v: GPUBuffer; readonly pageBytes: number }
  /** [slots, floats] f32, and [kept states, floats] beside them. */
  | {
      readonly kind: 'state';
      readonly live: GPUBuffer;
      readonly kept: GPUBuffer;
      readonly bytes: number;
    };

/** Keys and values at an index of the shape's caches. */
export function pagesOf({ caches }: Pick<Memory, 'caches'>, index: number): { k: GPUBuffer; v: GPUBuffer } {
  const cache = caches[index];
  if (cache?.kind !== 'pages') throw new Error(`cache ${index} holds no keys and values`);
  return cache;
}

/** The states of all slots at an index of the shape's caches. */
export function statesOf({ caches }: Pick<Memory, 'caches'>, index: number): GPUBuffer {
  const cache = caches[index];
  if (cache?.kind !== 'state') throw new Error(`cache ${index} holds no state`);
  return cache.live;
}

/** Bytes of a page's keys (or values) in one cache. */
const bytesOfPage = (cache: CacheShape): number =>
  cache.kind === 'pages' ? pageTokens * cache.kvHeads * cache.headDim * 2 : 0;

/** Bytes that one page takes over all layers. */
export const pageBytes = (shape: Shape): number =>
  cacheShapes(shape).reduce((sum, cache) => sum + 2 * bytesOfPage(cache), 0);

/** Bytes of one page in the widest layer's keys (or values): one binding. */
export const pageBytesPerBinding = (shape: Shape): number => Math.max(...cacheShapes(shape).map(bytesOfPage));

/** Bytes of one text's states over all layers; 0 where keys and values are all that is kept. */
export const stateBytes = (shape: Shape): number =>
  cacheShapes(shape).reduce((sum, cache) => sum + (cache.kind === 'state' ? cache.floats * 4 : 0), 0);

const roundUp = (value: number, to: number) => Math.ceil(value / to) * to;
/** Columns whose squares are summed together, at least. */
const leastPart = 4;
/** Matmuls read whole groups of columns, also past the last token. */
const rowPadding = 8;

/** Elements a token of buffers that a layer fills, by its sizes. */
export function layerStrides({ heads, kvHeads, headDim, feedForward, context, mixed }: LayerShape) {
  return {
    qkv: (heads + 2 * kvHeads) * headDim,
    context,
    gate_up: 2 * feedForward,
    activated: roundUp(feedForward, blockColumns),
    mixed,
  };
}

/** Every different one, at least. */
const layerShapes = (shape: Shape): readonly LayerShape[] => shape.perLayer ?? [layerShape(shape, undefined)];

/** Of the widest layer. */
function widestStrides(shape: Shape): ReturnType<typeof layerStrides> {
  return layerShapes(shape)
    .map(layerStrides)
    .reduce((most, one) => ({
      qkv: Math.max(most.qkv, one.qkv),
      context: Math.max(most.context, one.context),
      gate_up: Math.max(most.gate_up, one.gate_up),
      activated: Math.max(most.activated, one.activated),
      mixed: Math.max(most.mixed, one.mixed),
    }));
}

function stridesOf(shape: Shape): Record<BufferName, number> {
  const { experts: { used = 0, count = 0, feedForward = 0 } = {}, layerInput = 0 } = shape;
  return {
    hidden: shape.width,
    normed: shape.width,
    ...widestStrides(shape),
    router: count,
    expert_gate: used * feedForward,
    expert_activated: used * feedForward,
    expert_out: used * shape.width,
    per_layer: shape.layers * layerInput,
    layer_input: layerInput,
    projected: shape.sandwich ? shape.width : 0,
    last: shape.width,
    logits: drawnFrom(shape),
    expanded: shape.embedding?.expanded ?? 0,
    embedding: shape.embedding?.from === 'embedding' ? shape.embedding.dimensions : 0,
  };
}

/** Tokens that a sample chooses among; a model for embeddings draws none. */
const drawnFrom = (shape: Shape): number => (shape.embedding ? 0 : shape.vocabulary);

/** Buffers with a row a sample, not a row a token. */
const sampledBuffers: readonly string[] = ['last', 'logits', 'expanded', 'embedding'] satisfies BufferName[];

/** Parts of the context that decoding reads apart; a model for embeddings decodes nothing. */
const splitsOf = (shape: Shape, capacity: Pick<Capacity, 'context' | 'splitTokens'>): number =>
  shape.embedding ? 1 : Math.ceil(capacity.context / splitTokensOf(capacity));

/** Elements a token of attention's sums by parts of the context. */
const partialStride = (shape: Shape, capacity: Pick<Capacity, 'context' | 'splitTokens'>): number =>
  splitsOf(shape, capacity) *
  Math.max(...layerShapes(shape).map(({ heads, headDim }) => heads * (headDim + 2)));

/** Bytes of the largest buffer that grows with the capacity. */
export function largestBinding(shape: Shape, { stepTokens, pages }: Capacity): number {
  const strides = Object.entries(stridesOf(shape)).filter(([name]) => !sampledBuffers.includes(name));
  const widest = Math.max(...strides.map(([, stride]) => stride));
  return Math.max(roundUp(stepTokens, rowPadding) * widest * 4, pages * pageBytesPerBinding(shape));
}

/** Bytes of everything but weights and KV pages. */
export function workBytes(shape: Shape, capacity: Omit<Capacity, 'pages'>): number {
  const strides = stridesOf(shape);
  const rows = roundUp(capacity.stepTokens, rowPadding);
  // The logits twice: with what is added to them, and without.
  const perSample = strides.last + 2 * strides.logits + strides.expanded + strides.embedding;
  const squares = Math.ceil(shape.width / leastPart);
  const perToken = Object.entries(strides).filter(([name]) => !sampledBuffers.includes(name));
  const perRow = perToken.reduce((sum, [, stride]) => sum + stride, squares);
  const activations = rows * perRow * 4 + expertBytes(shape, capacity);
  const states = (capacity.slots + (capacity.keptStates ?? 0)) * stateBytes(shape);
  const sampled = roundUp(stepSamples(capacity.slots), rowPadding) * perSample * 4;
  const perSlot = capacity.slots * (drawnFrom(shape) * 8 + maskWords(drawnFrom(shape)) * 4);
  const partial = capacity.slots * partialStride(shape, capacity) * 4;
  const rotations = shape.ropes.reduce((sum, { rotary }) => sum + capacity.context * rotary * 4, 0);
  const streamed = capacity.stepTokens * (shape.streamedBytes ?? 0);
  return streamed + activations + sampled + perSlot + partial + pageBytes(shape) + rotations + states;
}

export function allocateMemory(pool: BufferPool, shape: Shape, capacity: Capacity): Memory {
  // The attention of every layer takes the same tiles.
  const attending = layerShapes(shape).filter(({ heads }) => heads > 0);
  const tile = Math.min(...attending.map((layer) => attentionTile(layer).tile));
  const { slots, stepTokens, context } = capacity;
  const layout = stepLayout({ slots, tokens: stepTokens, tileTokens: tile });
  const step = pool.shared('step', layout.sizeBytes);
  const strides = stridesOf(shape);
  const tokenRows = roundUp(stepTokens, rowPadding);
  const samples = stepSamples(slots);
  const sampleRows = roundUp(samples, rowPadding);
  const buffers = Object.fromEntries(
    Object.entries(strides).map(([name, stride]) => {
      const rows = sampledBuffers.includes(name) ? sampleRows : tokenRows;
      return [name, pool.storage(name, rows * stride * 4)];
    }),
  ) as Record<BufferName, GPUBuffer>;

  const maxPages = Math.ceil(context / pageTokens);
  const splitTokens = splitTokensOf(capacity);
  const maxSplits = splitsOf(shape, capacity);
  const caches = cacheShapes(shape).map((cache, index) => allocateCache(pool, cache, index, capacity));
  const ropeTables = shape.ropes.map((rope, index) => {
    const table = ropeTable(rope, context);
    const buffer = pool.storage(`rope${index}.table`, table.byteLength);
    pool.device.queue.writeBuffer(buffer, 0, table);
    return buffer;
  });

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
    ropeTables,
    pageTable: pool.storage('page_table', slots * maxPages * 4),
    maxPages,
    splitTokens,
    maxSplits,
    partial: pool.storage('attention.partial', slots * partialStride(shape, capacity) * 4),
    sampled: pool.storage('sampled', (slots + 1) * 4),
    results: pool.storage('results', samples * 4),
    bias: pool.storage('sample.bias', slots * drawnFrom(shape) * 4),
    seen: pool.storage('sample.seen', slots * drawnFrom(shape) * 4),
    masks: pool.storage('sample.masks', slots * maskWords(drawnFrom(shape)) * 4),
    rawLogits: pool.storage('logits.raw', samples * drawnFrom(shape) * 4),
    logprobs: pool.storage('logprobs', samples * logprobWords * 4),
    pageCopy: pool.storage('kv.page_copy', pageBytes(shape)),
    squares: pool.storage('squares', tokenRows * Math.ceil(shape.width / leastPart) * 4),
    nothing: pool.storage('nothing', 16),
    nowhere: pool.storage('nowhere', 16),
    aside: pool.storage('aside', 16),
    experts: allocateExperts(pool, shape, capacity),
    caches,
  };
}

function allocateCache(
  pool: BufferPool,
  shape: CacheShape,
  index: number,
  { pages, slots, keptStates = 0 }: Capacity,
): LayerCache {
  if (shape.kind === 'pages') {
    const bytes = bytesOfPage(shape);
    return {
      kind: 'pages',
      k: pool.storage(`cache${index}.k`, pages * bytes),
      v: pool.storage(`cache${index}.v`, pages * bytes),
      pageBytes: bytes,
    };
  }
  const bytes = shape.floats * 4;
  return {
    kind: 'state',
    live: pool.storage(`cache${index}.state`, slots * bytes),
    kept: pool.storage(`cache${index}.kept`, keptStates * bytes),
    bytes,
  };
}
