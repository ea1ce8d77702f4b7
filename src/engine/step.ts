import type { StepDims } from '../../kernels/define.ts';
import { singleToken } from '../../kernels/rope-kv-write.ts';
import { likeliestShift, sampleFlags, sampleWords } from '../../kernels/sample.ts';
import type { StateCopy } from './kept-states.ts';
import type { PageCopy } from './kv-cache.ts';
import { maxDrafts } from './prompt-lookup.ts';
import { type GenerateRequest, greedy, type Sampling } from './types.ts';

/** Token id that means: the one the slot sampled last, which only the GPU knows yet. */
export const feedback = 0xffffffff;

/** WebGPU's least alignment of a binding's offset. */
const align = (bytes: number) => Math.ceil(bytes / 256) * 256;

/** Where the areas of the step buffer begin, in bytes. Tokens come last, so that a short step writes little. */
export interface StepLayout {
  /** The header again, with the samples in place of the tokens. */
  readonly sampledHeader: number;
  readonly samples: number;
  readonly singleTiles: number;
  readonly wideTiles: number;
  /** Runs of tokens, one a sequence: first row, tokens, slot, position of the first. */
  readonly spans: number;
  readonly tokens: number;
  readonly sizeBytes: number;
  /** The slot that is nobody's. */
  readonly nobody: number;
}

/** Rows of drafts that a step may verify; each takes a row of logits. */
const draftRows = (slots: number): number => Math.min(maxDrafts * slots, 16);

/** Samples a step may take: a token for every slot, and drafts. */
export const stepSamples = (slots: number): number => slots + draftRows(slots);

export function stepLayout(limits: { slots: number; tokens: number; tileTokens: number }): StepLayout {
  const sampledHeader = 256;
  const samples = 512;
  const singleTiles = samples + align(stepSamples(limits.slots) * sampleWords * 4);
  const wideTiles = singleTiles + align(limits.slots * 16);
  // Each sequence may end in a tile that is not full.
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

/** One step's input as the GPU reads it; filled anew each step, allocated once. */
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
  /** Pages to copy before the step runs, in this order. */
  readonly copies: PageCopy[] = [];
  /** States of layers to copy before the step runs, in this order. */
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

  /** One token of a sequence that is being decoded, and no other of it in this step; its row. */
  decodeToken(id: number, position: number, slot: number): number {
    this.dims.answers += 1;
    this.#span(1, slot, position);
    const row = this.#token(id, position, slot, singleToken);
    this.#tile(this.layout.singleTiles, this.dims.singleTiles++, row, 1, slot, position);
    this.dims.splits = Math.max(this.dims.splits, Math.floor(position / this.#splitTokens) + 1);
    return row;
  }

  /** A run of tokens of one sequence at consecutive positions, `ids[first]` at `first`; the row of the last. */
  prefillTokens(ids: readonly number[], first: number, count: number, slot: number): number {
    this.#span(count, slot, first);
    this.#wideTiles(first, count, slot);
    let row = 0;
    for (let at = first; at < first + count; at++) row = this.#token(ids[at] ?? 0, at, slot);
    return row;
  }

  /** A whole sequence; the row of the last token. */
  wholeTokens(ids: readonly number[], slot: number, options: { bidirectional: boolean }): number {
    this.#wideTiles(0, ids.length, slot, options.bidirectional ? ids.length : 0);
    let row = 0;
    for (const [at, id] of ids.entries()) row = this.#token(id, at, slot);
    return row;
  }

  /** A token that is being decoded at `position`, and drafts of what follows it; the row of the first. */
  verifyTokens(id: number, drafts: readonly number[], position: number, slot: number): number {
    this.dims.answers += 1 + drafts.length;
    this.#span(1 + drafts.length, slot, position);
    this.#wideTiles(position, 1 + drafts.length, slot);
    const row = this.#token(id, position, slot);
    for (const [index, draft] of drafts.entries()) this.#token(draft, position + 1 + index, slot);
    return row;
  }

  /**
   * Asks for the token after `row`, which will stand at `position`.
   * @param wants see `wantsOf`
   * @returns its index among the step's samples
   */
  sample(row: number, slot: number, position: number, sampling: Sampling, wants = 0): number {
    const flags = flagsOf(sampling) | wants;
    if ((flags & (sampleFlags.bias | sampleFlags.penalties | sampleFlags.mask)) !== 0)
      this.dims.adjust = true;
    return this.#sample(row, slot, flags, sampling.seed, position, sampling);
  }

  /** Asks for the log probability of `token`, which stands after `row`; its index among the step's samples. */
  score(row: number, token: number, wants: number): number {
    // What is drawn there is drawn for nobody.
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
    // The single most likely token is the greedy one; the greedy path also settles ties.
    floats[at + 6] = sampling.topK === 1 ? 0 : sampling.temperature;
    floats[at + 7] = sampling.topP;
    floats[at + 8] = sampling.minP;
    floats[at + 9] = sampling.repetitionPenalty;
    floats[at + 10] = sampling.presencePenalty;
    floats[at + 11] = sampling.frequencyPenalty;
    return index;
  }

  /** Of its tokens, by row; `feedback` where only the GPU knows one. */
  ids(): Uint32Array {
    const first = this.layout.tokens / 4;
    return Uint32Array.from({ length: this.dims.tokens }, (_, row) => this.#words[first + row * 4] as number);
  }

  /** The bytes to write at the start of the step buffer. */
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
   * Tiles for the next `count` rows.
   * @param length of the sequence, where tokens see to its end: the upper half of the word of the count
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

  /** The next `count` rows are one sequence's. */
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

/** What a request wants of each of its samples beside the token. */
export function wantsOf({
  constraint,
  logprobs,
  postSampling = false,
}: Pick<GenerateRequest, 'constraint' | 'logprobs' | 'postSampling'>): number {
  const reported = logprobs === undefined ? 0 : sampleFlags.logprobs | (logprobs << likeliestShift);
  return (constraint ? sampleFlags.mask : 0) | reported | (postSampling ? sampleFlags.afterSampling : 0);
}
