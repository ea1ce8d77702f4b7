import { emptyStepDims, type StepDims } from '../../../kernels/define.ts';
import { secondSegmentFlag } from '../../../kernels/position-embed.ts';
import { singleTileFlag } from '../../../kernels/rope-kv-write.ts';
import { topLogprobsShift, sampleFlags, sampleWords } from '../../../kernels/sample.ts';
import type { StateCopy } from '../memory/retained-states.ts';
import type { PageCopy } from '../memory/kv-cache.ts';
import { maxDrafts } from '../speculation/prompt-lookup.ts';
import { type GenerateRequest, greedySampling, type Sampling } from '../types.ts';

/** Token id that stands for the token the slot sampled last, which only the GPU knows yet. */
export const feedbackToken = 0xffffffff;

/** WebGPU's default alignment of binding offsets. */
const alignBinding = (bytes: number) => Math.ceil(bytes / 256) * 256;

/** Byte offsets of the areas of the step buffer. Tokens come last, so that a short step writes little. */
export interface StepLayout {
  /** A copy of the header with the sample count in place of the token count. */
  readonly sampledHeader: number;
  readonly samples: number;
  /** Tiles of one token; `splitTiles`: those whose context is split, one for each slot. */
  readonly singleTiles: number;
  readonly splitTiles: number;
  readonly wideTiles: number;
  /** Runs of consecutive tokens of one sequence: first row, tokens, slot, first position. */
  readonly spans: number;
  readonly tokens: number;
  readonly sizeBytes: number;
  /** A slot that belongs to no sequence; the number of slots. */
  readonly dummySlot: number;
}

/** Below it, sampling is greedy: kernels divide logits by the temperature, and the quotient has to be finite in f32. */
const minTemperature = 1e-30;

/** Most draft rows of a step; each needs a row of logits. */
const maxDraftRows = (slots: number): number => Math.min(maxDrafts * slots, 16);

/** Most samples of a step: one for every slot, and the drafts. */
export const maxStepSamples = (slots: number): number => slots + maxDraftRows(slots);

export function stepLayout(limits: { slots: number; tokens: number; tileTokens: number }): StepLayout {
  const sampledHeader = 256;
  const samples = 512;
  const singleTiles = samples + alignBinding(maxStepSamples(limits.slots) * sampleWords * 4);
  const splitTiles = singleTiles + alignBinding(maxStepSamples(limits.slots) * 16);
  const wideTiles = splitTiles + alignBinding(limits.slots * 16);
  // Each sequence may end in a partial tile.
  const tiles = Math.ceil(limits.tokens / limits.tileTokens) + limits.slots;
  const spans = wideTiles + alignBinding(tiles * 16);
  const tokens = spans + alignBinding(maxStepSamples(limits.slots) * 16);
  return {
    sampledHeader,
    samples,
    singleTiles,
    splitTiles,
    wideTiles,
    spans,
    tokens,
    sizeBytes: tokens + alignBinding(limits.tokens * 16),
    dummySlot: limits.slots,
  };
}

/** How attention reads the contexts of decoded tokens from a position on, up to that of the next entry. */
export interface ContextSplit {
  /** First position. */
  readonly from: number;
  /** Positions that one workgroup reads; less than 65,536. */
  readonly tokens: number;
}

/** Tiles of attention; tokens before the first split are not split. */
export interface AttentionTiling {
  /** Tokens of a prompt in a tile. */
  readonly tileTokens: number;
  /** In ascending order. */
  readonly splits: readonly ContextSplit[];
}

/** Input of one step in the GPU's format; allocated once, filled anew for each step. */
export class StepInput {
  readonly layout: StepLayout;
  readonly dims: StepDims = { ...emptyStepDims };
  /** Pages to copy before the step runs, in order. */
  readonly pageCopies: PageCopy[] = [];
  /** Layer states to copy before the step runs, in order. */
  readonly stateCopies: StateCopy[] = [];
  /** The results include the hidden state of every sample. */
  readsHiddenStates = false;
  /**
   * Rows of decoding sequences and rows of prompts run on kernels that round differently. A row must then always run on
   * those of its kind: drafts and recomputed answers on the same attention kernel as a single decoded token.
   */
  readonly separatesDecodeRows: boolean;
  readonly #words: Uint32Array<ArrayBuffer>;
  readonly #floats: Float32Array;
  readonly #tileTokens: number;
  readonly #splits: readonly ContextSplit[];
  /** The first position whose context is split. */
  readonly #splitFrom: number;

  /** @param options.splitTokens without `splits`: positions in a split, and the first position whose context is split */
  constructor(
    layout: StepLayout,
    options: Pick<AttentionTiling, 'tileTokens'> & {
      splitTokens: number;
      splits?: readonly ContextSplit[];
      separatesDecodeRows?: boolean;
    },
  ) {
    const { splitTokens } = options;
    this.layout = layout;
    this.separatesDecodeRows = options.separatesDecodeRows ?? false;
    this.#words = new Uint32Array(layout.sizeBytes / 4);
    this.#floats = new Float32Array(this.#words.buffer);
    this.#tileTokens = options.tileTokens;
    this.#splits = options.splits ?? [{ from: splitTokens, tokens: splitTokens }];
    this.#splitFrom = this.#splits[0]?.from ?? Number.POSITIVE_INFINITY;
  }

  clear(): void {
    this.pageCopies.length = 0;
    this.stateCopies.length = 0;
    this.readsHiddenStates = false;
    Object.assign(this.dims, emptyStepDims);
  }

  /** Adds one token of a decoding sequence, its only one in this step. @returns its row */
  decodeToken(id: number, position: number, slot: number): number {
    this.#addDecodeRows(1);
    this.#addSpan(1, slot, position);
    return this.#addSingleTile(id, position, slot);
  }

  /**
   * Adds consecutive tokens of one sequence that are computed as decoded tokens are, bit for bit. At most
   * `decodeRoom(first)`. @returns the row of the last one
   */
  decodeTokens(ids: readonly number[], first: number, slot: number): number {
    this.#addDecodeRows(ids.length);
    this.#addSpan(ids.length, slot, first);
    if (ids.length > 1) this.dims.hasConsecutiveTiles = true;
    let row = 0;
    for (const [index, id] of ids.entries()) row = this.#addSingleTile(id, first + index, slot);
    return row;
  }

  /** Most tokens from this position on that `decodeTokens` can add. */
  decodeRoom(position: number): number {
    const { layout, dims } = this;
    const single = maxStepSamples(layout.dummySlot) - dims.singleTiles;
    const split = layout.dummySlot - dims.splitTiles;
    const unsplit = Math.max(0, this.#splitFrom - position);
    return unsplit > single ? single : unsplit + split;
  }

  /** Adds consecutive tokens of one sequence; `ids[first]` has position `first`. @returns the row of the last one */
  prefillTokens(ids: readonly number[], first: number, count: number, slot: number): number {
    this.#addSpan(count, slot, first);
    this.#addWideTiles(first, count, slot);
    let row = 0;
    for (let at = first; at < first + count; at++) row = this.#addToken(ids[at] ?? 0, at, slot);
    return row;
  }

  /**
   * Adds a whole sequence.
   * @param secondSegment index of the first token of its second segment; absent: it has one segment
   * @returns the row of its last token
   */
  encodeSequence(
    ids: readonly number[],
    slot: number,
    options: { bidirectional: boolean },
    secondSegment = ids.length,
  ): number {
    this.#addWideTiles(0, ids.length, slot, options.bidirectional ? ids.length : 0);
    let row = 0;
    for (const [at, id] of ids.entries())
      row = this.#addToken(id, at, slot, at < secondSegment ? 0 : secondSegmentFlag);
    return row;
  }

  /** Adds a token at `position` and drafts of the tokens after it. @returns the row of the first */
  verifyTokens(id: number, drafts: readonly number[], position: number, slot: number): number {
    const isUnsplit = position + drafts.length < this.#splitFrom;
    // Only a draft model adds more rows than there is room for, or past the split; its own bits do not matter.
    if (this.separatesDecodeRows && isUnsplit && drafts.length < this.decodeRoom(position))
      return this.decodeTokens([id, ...drafts], position, slot) - drafts.length;
    this.#addDecodeRows(1 + drafts.length);
    this.#addSpan(1 + drafts.length, slot, position);
    this.#addWideTiles(position, 1 + drafts.length, slot);
    const row = this.#addToken(id, position, slot);
    for (const [index, draft] of drafts.entries()) this.#addToken(draft, position + 1 + index, slot);
    return row;
  }

  /**
   * Requests the token after `row`, which will have position `position`.
   * @param requestFlags see `requestFlagsOf`
   * @returns its index among the step's samples
   */
  sample(row: number, slot: number, position: number, sampling: Sampling, requestFlags = 0): number {
    const flags = samplingFlagsOf(sampling) | requestFlags;
    if ((flags & (sampleFlags.bias | sampleFlags.penalties | sampleFlags.mask)) !== 0)
      this.dims.needsLogitAdjustment = true;
    return this.#sample(row, slot, flags, sampling.seed, position, sampling);
  }

  /** Requests the log probability of `token` after `row`. @returns its index among the step's samples */
  score(row: number, token: number, requestFlags: number): number {
    // The token sampled for a score goes to the dummy slot.
    return this.#sample(
      row,
      this.layout.dummySlot,
      requestFlags | sampleFlags.scored,
      token,
      0,
      greedySampling,
    );
  }

  /**
   * Requests the hidden state of `row` after the final norm.
   * @param position the position after the row's token
   * @returns its index among the step's samples
   */
  hiddenState(row: number, position: number): number {
    this.readsHiddenStates = true;
    // A token is sampled with it; it goes to the dummy slot.
    return this.sample(row, this.layout.dummySlot, position, greedySampling);
  }

  #sample(
    row: number,
    slot: number,
    flags: number,
    seed: number,
    position: number,
    sampling: Sampling,
  ): number {
    if ((flags & sampleFlags.logprobs) !== 0) this.dims.needsLogprobs = true;
    const index = this.dims.samples++;
    const at = this.layout.samples / 4 + index * sampleWords;
    const words = this.#words;
    const floats = this.#floats;
    words[at] = row;
    words[at + 1] = slot;
    words[at + 2] = flags;
    words[at + 3] = seed >>> 0;
    words[at + 4] = position;
    words[at + 5] = sampling.topK;
    // The greedy path breaks ties deterministically.
    const isGreedy = sampling.topK === 1 || sampling.temperature < minTemperature;
    floats[at + 6] = isGreedy ? 0 : sampling.temperature;
    floats[at + 7] = sampling.topP;
    floats[at + 8] = sampling.minP;
    floats[at + 9] = sampling.repetitionPenalty;
    floats[at + 10] = sampling.presencePenalty;
    floats[at + 11] = sampling.frequencyPenalty;
    return index;
  }

  /** Token ids by row; `feedbackToken` where only the GPU knows the token. */
  tokenIds(): Uint32Array {
    const first = this.layout.tokens / 4;
    return Uint32Array.from({ length: this.dims.tokens }, (_, row) => this.#words[first + row * 4] as number);
  }

  /** The bytes to write to the start of the step buffer. */
  bytes(): Uint32Array<ArrayBuffer> {
    const { tokens, samples, splitTiles, decodeRows } = this.dims;
    this.#words.set([tokens, samples, splitTiles, decodeRows]);
    this.#words.set([samples, samples, 0, samples], this.layout.sampledHeader / 4);
    return this.#words.subarray(0, this.layout.tokens / 4 + tokens * 4);
  }

  #addDecodeRows(count: number): void {
    const { dims } = this;
    if (dims.tokens > dims.decodeRows) throw new Error('rows that are decoded come before rows of prompts');
    dims.decodeRows += count;
  }

  /** Adds a token with a tile of its own. @returns its row */
  #addSingleTile(id: number, position: number, slot: number): number {
    const { layout, dims } = this;
    const row = this.#addToken(id, position, slot, singleTileFlag);
    const split = this.#splits.findLast(({ from }) => position >= from);
    if (split) {
      this.#writeTile(layout.splitTiles, dims.splitTiles++, row, 1 + split.tokens * 0x10000, slot, position);
      dims.splits = Math.max(dims.splits, Math.floor(position / split.tokens) + 1);
    } else {
      this.#writeTile(layout.singleTiles, dims.singleTiles++, row, 1, slot, position);
    }
    return row;
  }

  #addToken(id: number, position: number, slot: number, mark = 0): number {
    const row = this.dims.tokens++;
    const at = this.layout.tokens / 4 + row * 4;
    this.#words[at] = id;
    this.#words[at + 1] = position;
    this.#words[at + 2] = slot;
    this.#words[at + 3] = mark;
    return row;
  }

  /**
   * Adds tiles for the next `count` rows.
   * @param length length of a bidirectional sequence, stored in the upper half of the count's word
   */
  #addWideTiles(first: number, count: number, slot: number, length = 0): void {
    for (let done = 0; done < count; done += this.#tileTokens) {
      const inTile = Math.min(this.#tileTokens, count - done);
      const row = this.dims.tokens + done;
      this.#writeTile(
        this.layout.wideTiles,
        this.dims.wideTiles++,
        row,
        inTile + length * 0x10000,
        slot,
        first + done,
      );
    }
  }

  /** Records that the next `count` rows belong to one sequence. */
  #addSpan(count: number, slot: number, position: number): void {
    this.#writeTile(this.layout.spans, this.dims.sequenceRuns++, this.dims.tokens, count, slot, position);
  }

  #writeTile(area: number, index: number, row: number, count: number, slot: number, position: number): void {
    const at = area / 4 + index * 4;
    this.#words[at] = row;
    this.#words[at + 1] = count;
    this.#words[at + 2] = slot;
    this.#words[at + 3] = position;
  }
}

export function samplingFlagsOf(sampling: Sampling): number {
  const penalties =
    sampling.repetitionPenalty !== 1 || sampling.presencePenalty !== 0 || sampling.frequencyPenalty !== 0;
  return (sampling.logitBias.size > 0 ? sampleFlags.bias : 0) | (penalties ? sampleFlags.penalties : 0);
}

/** Sample flags for the optional features of a request: mask and log probabilities. */
export function requestFlagsOf({
  constraint,
  logprobs,
  postSampling = false,
}: Pick<GenerateRequest, 'constraint' | 'logprobs' | 'postSampling'>): number {
  const reported = logprobs === undefined ? 0 : sampleFlags.logprobs | (logprobs << topLogprobsShift);
  return (constraint ? sampleFlags.mask : 0) | reported | (postSampling ? sampleFlags.afterSampling : 0);
}
