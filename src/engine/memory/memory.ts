import { pageTokens } from '../../../kernels/rope-kv-write.ts';
import { classGrowth, maxParts } from '../execution/attention-tiling.ts';
import { attentionTile } from '../../../kernels/attention-choices.ts';
import { blockColumns } from '../../../kernels/formats.ts';
import { logprobWords } from '../../../kernels/logprobs.ts';
import { maskWords, sampleWords } from '../../../kernels/sample.ts';
import type { BufferPool } from '../gpu/buffers.ts';
import { allocateExperts, expertBytes, type ExpertMemory } from './expert-memory.ts';
import {
  type BufferName,
  type CacheShape,
  cacheShapes,
  type LayerShape,
  layerShape,
  type Shape,
} from '../graph/graph.ts';
import { ropeTable } from './rope-table.ts';
import { stepLayout, maxStepSamples, type StepLayout } from '../execution/step.ts';

/** Default number of positions that one attention workgroup reads. */
const defaultSplitTokens = 512;

/** Limits of an engine. */
export interface Capacity {
  /** Tokens that a sequence may hold. */
  readonly context: number;
  /** Concurrent sequences. */
  readonly slots: number;
  /** Tokens that a step may hold. */
  readonly stepTokens: number;
  /** Pages of the KV cache. */
  readonly pages: number;
  /** Positions that one attention workgroup reads while decoding; longer contexts are split. */
  readonly splitTokens?: number;
  /** Layer states retained for later requests, in addition to those of the slots. */
  readonly retainedStates?: number;
}

export const splitTokensOf = (capacity: Pick<Capacity, 'splitTokens'>): number =>
  capacity.splitTokens ?? defaultSplitTokens;

/** All GPU buffers except weights. */
export interface Memory {
  readonly pool: BufferPool;
  readonly capacity: Capacity;
  readonly layout: StepLayout;
  /** Header, samples, tiles and tokens of the current step. */
  readonly step: GPUBuffer;
  readonly samplesBytes: number;
  readonly singleTilesBytes: number;
  readonly splitTilesBytes: number;
  readonly wideTilesBytes: number;
  readonly tileTokens: number;
  readonly buffers: Readonly<Record<BufferName, GPUBuffer>>;
  /** Elements between consecutive rows. */
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
  /** [slots + 1]: the token sampled last in each slot; the last entry is a dummy slot. */
  readonly sampled: GPUBuffer;
  /** [samples of a step]: tokens sampled in the step. */
  readonly results: GPUBuffer;
  /** [slots, vocabulary] each. */
  readonly bias: GPUBuffer;
  readonly tokenCounts: GPUBuffer;
  /** [slots, mask words]: one bit for each token, set when it may be sampled. */
  readonly masks: GPUBuffer;
  /** [samples of a step, vocabulary]: unmodified logits, in steps that report log probabilities. */
  readonly rawLogits: GPUBuffer;
  /** [samples of a step, logprob words] */
  readonly logprobs: GPUBuffer;
  /** One page of every layer, k then v. WebGPU cannot copy within one buffer. */
  readonly pageCopy: GPUBuffer;
  /** [tokens, parts of the width]: sums of squares of `hidden`, for the next norm. */
  readonly squares: GPUBuffer;
  /** Dummy buffers for a kernel's absent optional inputs and outputs. Outputs may not alias, so there are two. */
  readonly dummyRead: GPUBuffer;
  readonly dummyWrite: GPUBuffer;
  readonly scratch: GPUBuffer;
  /** Routing of tokens to experts. */
  readonly experts: ExpertMemory | undefined;
  /** By index of the shape's caches. */
  readonly caches: readonly LayerCache[];
}

/** GPU buffers of a layer's cache. */
export type LayerCache =
  /** [pages, kvHeads, pageTokens, headDim] f16 each. */
  | { readonly kind: 'pages'; readonly k: GPUBuffer; readonly v: GPUBuffer; readonly pageBytes: number }
  /** [slots, floats] f32, and [retained states, floats] f32. */
  | {
      readonly kind: 'state';
      readonly live: GPUBuffer;
      readonly retained: GPUBuffer;
      readonly bytes: number;
    };

/** Key and value buffers at an index of the shape's caches. */
export function pageBuffersOf(
  { caches }: Pick<Memory, 'caches'>,
  index: number,
): { k: GPUBuffer; v: GPUBuffer } {
  const cache = caches[index];
  if (cache?.kind !== 'pages') throw new Error(`cache ${index} holds no keys and values`);
  return cache;
}

/** States of all slots at an index of the shape's caches. */
export function stateBufferOf({ caches }: Pick<Memory, 'caches'>, index: number): GPUBuffer {
  const cache = caches[index];
  if (cache?.kind !== 'state') throw new Error(`cache ${index} holds no state`);
  return cache.live;
}

/** Bytes of the keys (or values) of one page in one cache. */
const bytesOfPage = (cache: CacheShape): number =>
  cache.kind === 'pages' ? pageTokens * cache.kvHeads * cache.headDim * 2 : 0;

/** Bytes of one page over all layers. */
export const pageBytes = (shape: Shape): number =>
  cacheShapes(shape).reduce((sum, cache) => sum + 2 * bytesOfPage(cache), 0);

/** Bytes of the keys (or values) of one page in the widest layer, which one binding must hold. */
export const pageBytesPerBinding = (shape: Shape): number => Math.max(...cacheShapes(shape).map(bytesOfPage));

/** Bytes of one sequence's states over all layers; 0 when layers only have keys and values. */
export const stateBytes = (shape: Shape): number =>
  cacheShapes(shape).reduce((sum, cache) => sum + (cache.kind === 'state' ? cache.floats * 4 : 0), 0);

const roundUp = (value: number, to: number) => Math.ceil(value / to) * to;
/** Smallest number of columns whose squares are summed together. */
const minPart = 4;
/** Matmuls read whole groups of rows, even beyond the last token. */
const rowPadding = 8;

/** Elements for each token in buffers whose sizes depend on the layer. */
export function layerStrides({ heads, kvHeads, headDim, feedForward, context, mixed }: LayerShape) {
  return {
    qkv: (heads + 2 * kvHeads) * headDim,
    context,
    gate_up: 2 * feedForward,
    activated: roundUp(feedForward, blockColumns),
    mixed,
  };
}

/** Contains at least every distinct layer shape. */
const layerShapes = (shape: Shape): readonly LayerShape[] => shape.perLayer ?? [layerShape(shape, undefined)];

/** Maxima over all layers. */
function widestStrides(shape: Shape): ReturnType<typeof layerStrides> {
  return layerShapes(shape)
    .map(layerStrides)
    .reduce((max, one) => ({
      qkv: Math.max(max.qkv, one.qkv),
      context: Math.max(max.context, one.context),
      gate_up: Math.max(max.gate_up, one.gate_up),
      activated: Math.max(max.activated, one.activated),
      mixed: Math.max(max.mixed, one.mixed),
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
    projected: shape.hasSandwichNorms ? shape.width : 0,
    last: shape.width,
    logits: sampledVocabulary(shape),
    expanded: shape.embedding?.expanded ?? 0,
    embedding: shape.embedding?.from === 'embedding' ? shape.embedding.dimensions : 0,
  };
}

/** Vocabulary to sample from; 0 for embedding models, which do not sample. */
const sampledVocabulary = (shape: Shape): number => (shape.embedding ? 0 : shape.vocabulary);

/** Buffers with one row for each sample instead of each token. */
const sampledBuffers: readonly string[] = ['last', 'logits', 'expanded', 'embedding'] satisfies BufferName[];

/**
 * Most parts that decoding may split a context into, whichever measurements choose: those of the default, or the shortest ones of a
 * class of contexts. Embedding models do not decode.
 */
function splitsOf(shape: Shape, capacity: Pick<Capacity, 'context' | 'splitTokens'>): number {
  const { context } = capacity;
  const splitTokens = splitTokensOf(capacity);
  if (shape.embedding || context <= splitTokens) return 1;
  const shortest = Math.min(classGrowth * maxParts, Math.ceil((context * maxParts) / splitTokens));
  return Math.max(shortest, Math.ceil(context / splitTokens));
}

/** Elements for each token of attention's partial sums. */
const partialStride = (shape: Shape, capacity: Pick<Capacity, 'context' | 'splitTokens'>): number =>
  splitsOf(shape, capacity) *
  Math.max(...layerShapes(shape).map(({ heads, headDim }) => heads * (headDim + 2)));

/** Bytes of the largest buffer that grows with the capacity. */
export function largestBinding(shape: Shape, { stepTokens, pages }: Capacity): number {
  const strides = Object.entries(stridesOf(shape)).filter(([name]) => !sampledBuffers.includes(name));
  const widest = Math.max(...strides.map(([, stride]) => stride));
  return Math.max(roundUp(stepTokens, rowPadding) * widest * 4, pages * pageBytesPerBinding(shape));
}

/** Bytes of all buffers except weights and KV pages. */
export function workspaceBytes(shape: Shape, capacity: Omit<Capacity, 'pages'>): number {
  const strides = stridesOf(shape);
  const rows = roundUp(capacity.stepTokens, rowPadding);
  // Logits exist twice: modified and unmodified.
  const perSample = strides.last + 2 * strides.logits + strides.expanded + strides.embedding;
  const squares = Math.ceil(shape.width / minPart);
  const perToken = Object.entries(strides).filter(([name]) => !sampledBuffers.includes(name));
  const perRow = perToken.reduce((sum, [, stride]) => sum + stride, squares);
  const activations = rows * perRow * 4 + expertBytes(shape, capacity);
  const states = (capacity.slots + (capacity.retainedStates ?? 0)) * stateBytes(shape);
  const sampled = roundUp(maxStepSamples(capacity.slots), rowPadding) * perSample * 4;
  const perSlot = capacity.slots * (sampledVocabulary(shape) * 8 + maskWords(sampledVocabulary(shape)) * 4);
  const partial = capacity.slots * partialStride(shape, capacity) * 4;
  const rotations = shape.ropes.reduce((sum, { rotary }) => sum + capacity.context * rotary * 4, 0);
  const streamed = capacity.stepTokens * (shape.streamedBytes ?? 0);
  return streamed + activations + sampled + perSlot + partial + pageBytes(shape) + rotations + states;
}

export function allocateMemory(pool: BufferPool, shape: Shape, capacity: Capacity): Memory {
  // The tile size must suit the attention of every layer.
  const attentionLayers = layerShapes(shape).filter(({ heads }) => heads > 0);
  const tile = Math.min(...attentionLayers.map((layer) => attentionTile(layer).tile));
  const { slots, stepTokens, context } = capacity;
  const layout = stepLayout({ slots, tokens: stepTokens, tileTokens: tile });
  const step = pool.storageUniform('step', layout.sizeBytes);
  const strides = stridesOf(shape);
  const tokenRows = roundUp(stepTokens, rowPadding);
  const samples = maxStepSamples(slots);
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
    singleTilesBytes: layout.splitTiles - layout.singleTiles,
    splitTilesBytes: layout.wideTiles - layout.splitTiles,
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
    bias: pool.storage('sample.bias', slots * sampledVocabulary(shape) * 4),
    tokenCounts: pool.storage('sample.seen', slots * sampledVocabulary(shape) * 4),
    masks: pool.storage('sample.masks', slots * maskWords(sampledVocabulary(shape)) * 4),
    rawLogits: pool.storage('logits.raw', samples * sampledVocabulary(shape) * 4),
    logprobs: pool.storage('logprobs', samples * logprobWords * 4),
    pageCopy: pool.storage('kv.page_copy', pageBytes(shape)),
    squares: pool.storage('squares', tokenRows * Math.ceil(shape.width / minPart) * 4),
    dummyRead: pool.storage('dummy_read', 16),
    dummyWrite: pool.storage('dummy_write', 16),
    scratch: pool.storage('scratch', 16),
    experts: allocateExperts(pool, shape, capacity),
    caches,
  };
}

function allocateCache(
  pool: BufferPool,
  shape: CacheShape,
  index: number,
  { pages, slots, retainedStates = 0 }: Capacity,
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
    retained: pool.storage(`cache${index}.retained`, retainedStates * bytes),
    bytes,
  };
}
