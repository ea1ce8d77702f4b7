/** How attention divides its work: tokens of a prompt in a tile, and parts of long contexts that are decoded. */
import { wideTileOptions } from '../../../kernels/attention-choices.ts';
import type { Gpu } from '../gpu/device.ts';
import { layerShape, type LayerShape, type Shape } from '../graph/graph.ts';
import type { Memory } from '../memory/memory.ts';
import type { AttentionTiling, ContextSplit } from './step.ts';
import { stepKey, type Tuning } from './tuning.ts';

type TiledMemory = Pick<Memory, 'tileTokens' | 'splitTokens' | 'capacity'>;

/** The tiling when nothing was measured. */
export const defaultTiling = ({ tileTokens, splitTokens }: TiledMemory): AttentionTiling => ({
  tileTokens,
  splits: [{ from: splitTokens, tokens: splitTokens }],
});

/** Positions from the first of a class to that of the next: this many times the first. */
export const classGrowth = 4;
/** The smallest parts of a class are this many in its first context. */
export const maxParts = 8;
/** Parts begin where blocks of positions do, whatever the number of lanes. */
const minSplitTokens = 64;
/** A tile has 16 bits for the length of its parts. */
const maxSplitTokens = 32_768;

/**
 * Classes of contexts that may be split differently, by their first position. Shorter contexts are never split: on a software adapter,
 * they have the bits of a prompt, and drafts are verified in them.
 */
export function contextClasses({ splitTokens, capacity }: TiledMemory): number[] {
  const classes: number[] = [];
  for (let from = splitTokens; from < capacity.context; from *= classGrowth) classes.push(from);
  return classes;
}

/** Lengths of parts for a class, the default first; undefined: the context is not split. */
export function splitOptions({ splitTokens }: TiledMemory, from: number): (number | undefined)[] {
  const parts = [maxParts, maxParts / 2, maxParts / 4].map((count) => from / count);
  const usable = parts.filter(
    (tokens) => tokens >= minSplitTokens && tokens <= maxSplitTokens && tokens % minSplitTokens === 0,
  );
  return [...new Set([splitTokens, undefined, ...usable])];
}

export const splitName = (tokens: number | undefined): string =>
  tokens === undefined ? 'whole' : `parts of ${tokens}`;
export const tileName = (tokens: number): string => `tiles of ${tokens}`;

/** Layers of a model that attend, one of each kind. */
export function attentionLayers(shape: Shape): LayerShape[] {
  const layers = (shape.perLayer ?? [layerShape(shape, undefined)]).filter(({ heads }) => heads > 0);
  return [...new Map(layers.map((layer) => [headsOf(layer), layer])).values()];
}

/** Heads as part of a subject. */
export const headsOf = ({ heads, kvHeads, headDim }: LayerShape): string =>
  `${heads}/${kvHeads} heads of ${headDim}`;

/** Subjects of the choices that one step has for all layers of a kind of heads. */
export const wideSubject = (heads: string): string => `attention of prompts, ${heads}`;
export const splitSubject = (heads: string): string => `split attention, ${heads}`;
export const positionName = (position: number): string => `position ${position}`;

/** Position in the middle of a class at which it is measured. */
export const measuredPosition = ({ capacity }: TiledMemory, from: number): number =>
  Math.min(from + (from >> 1), capacity.context - 1);

/** Rows of a prompt and positions of the first one that tiles are measured with; texts to embed are read whole. */
export function measuredPrompts(
  { embedding }: Pick<Shape, 'embedding'>,
  { capacity }: TiledMemory,
): { rows: number; first: number }[] {
  const rows = Math.min(64, capacity.stepTokens, capacity.context);
  return [...new Set([0, embedding ? 0 : Math.min(1024, capacity.context - rows)])].map((first) => ({
    rows,
    first,
  }));
}
export const promptName = ({ rows, first }: { rows: number; first: number }): string =>
  `${rows} rows from ${first}`;

/** For notices: `prompts in tiles of 8, contexts in parts of 256 from 2048, of 1024 from 8192`. */
export function describeTiling({ tileTokens, splits }: AttentionTiling, { capacity }: TiledMemory): string {
  const used = splits.filter(({ from }) => from < capacity.context);
  const parts = used.map(({ from, tokens }) => `of ${tokens} from ${from}`).join(', ');
  return `prompts in tiles of ${tileTokens}, contexts ${used.length > 0 ? `in parts ${parts}` : 'whole'}`;
}

/** The fastest tiling by the measurements of a model's layers. */
export function fastestTiling(
  { caps }: Pick<Gpu, 'caps'>,
  shape: Shape,
  memory: TiledMemory,
  tuning: Tuning,
): AttentionTiling {
  const heads = attentionLayers(shape).map(headsOf);
  const tiles = wideTileOptions(caps, attentionLayers(shape));
  const wideKeys = heads.flatMap((one) =>
    measuredPrompts(shape, memory).map((prompt) => stepKey(wideSubject(one), promptName(prompt))),
  );
  const wide = tuning.fastest(wideKeys, tiles.map(tileName));
  const splits: ContextSplit[] = [];
  // Contexts are split from the class on after which it always pays.
  for (const from of contextClasses(memory).toReversed()) {
    const options = splitOptions(memory, from);
    const keys = heads.map((one) => stepKey(splitSubject(one), positionName(measuredPosition(memory, from))));
    const fastest = tuning.fastest(keys, options.map(splitName));
    const tokens = options.find((option) => splitName(option) === fastest);
    if (tokens === undefined) break;
    splits.unshift({ from, tokens });
  }
  return { tileTokens: tiles.find((tile) => tileName(tile) === wide) ?? memory.tileTokens, splits };
}
