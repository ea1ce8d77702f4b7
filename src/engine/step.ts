import type { StepDims } from '../../kernels/define.ts';
import { singleToken } from '../../kernels/rope-kv-write.ts';
import { likeliestShift, sampleFlags, sampleWords } from '../../kernels/sample.ts';
import type { StateCopy } from './kept-states.ts';
import type { PageCopy } from './kv-cache.ts';
import { maxDrafts } from './prompt-lookup.ts';
import { type GenerateRequest, greedy, type Sampling } from './types.ts';

/** Token id that stands for the token the slot sampled last, which only the GPU knows yet. */
export const feedback = 0xffffffff;

/** WebGPU's default alignment of binding offsets. */
const align = (bytes: number) => Math.ceil(bytes / 256) * 256;

/** Byte offsets of the areas of the step buffer. Tokens come last, so that a short step writes little. */
export interface StepLayout {
  /** A copy of the header with the sample count in place of the token count. */
  readonly sampledHeader: number;
  readonly samples: number;
  readonly singleTiles: number;
  readonly wideTiles: number;
  /** Runs of consecutive tokens of one sequence: first row, tokens, slot, first position. */
  readonly spans: number;
  readonly tokens: number;
  readonly sizeBytes: number;
  /** A slot that belongs to no sequence. */
  readonly nobody: number;
}

/** Most draft rows of a step; each needs a row of logits. */
const draftRows = (slots: number): number => Math.min(maxDrafts * slots, 16);

/** Most samples of a step: one for every slot, and the drafts. */
export const stepSamples = (slots: number): number => slots + draftRows(slots);

export function stepLayout(limits: { slots: number; tokens: number; tileTokens: number }): StepLayout {
  const sampledHeader = 256;
  const samples = 512;
  const singleTiles = samples + align(stepSamples(limits.slots) * sampleWords * 4);
  const wideTiles = singleTiles + align(limits.slots * 16);
  // Each sequence may end in a partial tile.
  const tiles = Math.ceil(limits.tokens / limits.tileTokens) + limits.slots;
  const spans = wideTiles + align(tiles * 16);
  const tokens = spans + align(stepSamples(limits.slots) * 16);
  return {
    sampledHeader,
    samples,
    singleTiles,
    wideTiles,
    spans,
    tokens,
    sizeBytes: tokens + align(limits.tokens * 16),
    nobody: limits.slots,
  };
}

/** Input of one step in the GPU's format; allocated once, filled anew for each step. */
export class StepInput {
  readonly layout: StepLayout;
  readonly dims: StepDims = {
    tokens: 0,
    answers: 0,
    samples: 0,
    singleTiles: 0,
    wideTiles: 0,
    spans: 0,
    splits: 1,
    adjust: false,
    logprobs: false,
  };
  /** Pages to copy before the step runs, in order. */
  readonly copies: PageCopy[] = [];
  /** Layer states to copy before the step runs, in order. */
  readonly states: StateCopy[] = [];
  readonly #words: Uint32Array<ArrayBuffer>;
  readonly #floats: Float32Array;
  readonly #tileTokens: number;
  readonly #splitTokens: number;

  constructor(layout: StepLayout, options: { tileTokens: number; splitTokens: number }) {
    this.layout = layout;
    this.#words = new Uint32Array(layout.sizeBytes / 4);
    this.#floats = new Float32Array(this.#words.buffer);
    this.#tileTokens = options.tileTokens;
    this.#splitTokens = options.splitTokens;
  }

  clear(): void {
    this.copies.length = 0;
    this.states.length = 0;
    Object.assign(this.dims, {
      tokens: 0,
      answers: 0,
      samples: 0,
      singleTiles: 0,
      wideTiles: 0,
      spans: 0,
      splits: 1,
      adjust: false,
      logprobs: false,
    });
  }

  /** Adds one token of a decoding sequence, its only one in this step. @returns its row */
  decodeToken(id: number, position: number, slot: number): number {
    this.dims.answers += 1;
    this.#span(1, slot, position);
    const row = this.#token(id, position, slot, singleToken);
    this.#tile(this.layout.singleTiles, this.dims.singleTiles++, row, 1, slot, position);
    this.dims.splits = Math.max(this.dims.splits, Math.floor(position / this.#splitTokens) + 1);
    return row;
  }

  /** Adds consecutive tokens of one sequence; `ids[first]` has position `first`. @returns the row of the last one */
  prefillTokens(ids: readonly number[], first: number, count: number, slot: number): number {
    this.#span(count, slot, first);
    this.#wideTiles(first, count, slot);
    let row = 0;
    for (let at = first; at < first + count; at++) row = this.#token(ids[at] ?? 0, at, slot);
    return row;
  }

  /** Adds a whole sequence. @returns the row of its last token */
  wholeTokens(ids: readonly number[], slot: number, options: { bidirectional: boolean }): number {
    this.#wideTiles(0, ids.length, slot, options.bidirectional ? ids.length : 0);
    let row = 0;
    for (const [at, id] of ids.entries()) row = this.#token(id, at, slot);
    return row;
  }

  /** Adds a token at `position` and drafts of the tokens after it. @returns the row of the first */
  verifyTokens(id: number, drafts: readonly number[], position: number, slot: number): number {
    this.dims.answers += 1 + drafts.length;
    this.#span(1 + drafts.length, slot, position);
    this.#wideTiles(position, 1 + drafts.length, slot);
    const row = this.#token(id, position, slot);
    for (const [index, draft] of drafts.entries()) this.#token(draft, position + 1 + index, slot);
    return row;
  }

  /**
   * Requests the token after `row`, which will have position `position`.
   * @param requestFlags see `requestFlagsOf`
   * @returns its index among the step's samples
   */
  sample(row: number, slot: number, position: number, sampling: Sampling, wants = 0): number {
    const flags = flagsOf(sampling) | wants;
    if ((flags & (sampleFlags.bias | sampleFlags.penalties | sampleFlags.mask)) !== 0)
      this.dims.adjust = true;
    return this.#sample(row, slot, flags, sampling.seed, position, sampling);
  }

  /** Requests the log probability of `token` after `row`. @returns its index among the step's samples */
  score(row: number, token: number, wants: number): number {
    // The token sampled for a score goes to the dummy slot.
    return this.#sample(row, this.layout.nobody, wants | sampleFlags.scored, token, 0, greedy);
  }

  #sample(
    row: number,
    slot: number,
    flags: number,
    seed: number,
    position: number,
    sampling: Sampling,
  ): number {
    if ((flags & sampleFlags.logprobs) !== 0) this.dims.logprobs = true;
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
    // topK 1 is greedy sampling; the greedy path breaks ties deterministically.
    floats[at + 6] = sampling.topK === 1 ? 0 : sampling.temperature;
    floats[at + 7] = sampling.topP;
    floats[at + 8] = sampling.minP;
    floats[at + 9] = sampling.repetitionPenalty;
    floats[at + 10] = sampling.presencePenalty;
    floats[at + 11] = sampling.frequencyPenalty;
    return index;
  }

  /** Token ids by row; `feedbackToken` where only the GPU knows the token. */
  ids(): Uint32Array {
    const first = this.layout.tokens / 4;
    return Uint32Array.from({ length: this.dims.tokens }, (_, row) => this.#words[first + row * 4] as number);
  }

  /** The bytes to write to the start of the step buffer. */
  bytes(): Uint32Array<ArrayBuffer> {
    const { tokens, samples, singleTiles, splits } = this.dims;
    this.#words.set([tokens, samples, singleTiles, splits]);
    this.#words.set([samples, samples, 0, splits], this.layout.sampledHeader / 4);
    return this.#words.subarray(0, this.layout.tokens / 4 + tokens * 4);
  }

  #token(id: number, position: number, slot: number, mark = 0): number {
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
  #wideTiles(first: number, count: number, slot: number, length = 0): void {
    for (let done = 0; done < count; done += this.#tileTokens) {
      const inTile = Math.min(this.#tileTokens, count - done);
      const row = this.dims.tokens + done;
      this.#tile(
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
  #span(count: number, slot: number, position: number): void {
    this.#tile(this.layout.spans, this.dims.spans++, this.dims.tokens, count, slot, position);
  }

  #tile(area: number, index: number, row: number, count: number, slot: number, position: number): void {
    const at = area / 4 + index * 4;
    this.#words[at] = row;
    this.#words[at + 1] = count;
    this.#words[at + 2] = slot;
    this.#words[at + 3] = position;
  }
}

export function flagsOf(sampling: Sampling): number {
  const penalties =
    sampling.repetitionPenalty !== 1 || sampling.presencePenalty !== 0 || sampling.frequencyPenalty !== 0;
  return (sampling.logitBias.size > 0 ? sampleFlags.bias : 0) | (penalties ? sampleFlags.penalties : 0);
}

/** Sample flags for the optional features of a request: mask and log probabilities. */
export function wantsOf({
  constraint,
  logprobs,
  postSampling = false,
}: Pick<GenerateRequest, 'constraint' | 'logprobs' | 'postSampling'>): number {
  const reported = logprobs === undefined ? 0 : sampleFlags.logprobs | (logprobs << likeliestShift);
  return (constraint ? sampleFlags.mask : 0) | reported | (postSampling ? sampleFlags.afterSampling : 0);
}
