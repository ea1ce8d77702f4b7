/**
 * A simulated GPU for the scheduler. It runs steps in submission order on paged memory, and samples tokens that
 * depend on every earlier token as seen through the page table. Time is the cost of its steps.
 */
import { pageTokens } from '../../kernels/rope-kv-write.ts';
import { logprobWords } from '../../kernels/logprobs.ts';
import { topLogprobsShift, maskWords, noToken, sampleFlags, sampleWords } from '../../kernels/sample.ts';
import type { Capacity } from '../../src/engine/memory/memory.ts';
import { Sequence } from '../../src/engine/scheduling/sequence.ts';
import type { DraftRunner } from '../../src/engine/speculation/draft-model.ts';
import {
  feedbackToken,
  samplingFlagsOf,
  StepInput,
  stepLayout,
  maxStepSamples,
} from '../../src/engine/execution/step.ts';
import type {
  GenerateRequest,
  GenerationEvent,
  PromptProgress,
  RequestObserver,
  TokenLogprob,
} from '../../src/engine/types.ts';
import { ByteTokenizer } from './scripted-engine.ts';
import type { ToyGrammar } from './toy-constraint.ts';

const tileTokens = 4;
const vocabulary = 259;
/** Elements of a hidden state. */
export const stateWidth = 3;
const endToken = 257;
/** Outputs consist of this many letters. */
const letters = 12;

const mix = (a: number, b: number): number => {
  let v = Math.imul(a ^ Math.imul(b + 0x9e3779b9, 0x85ebca6b), 0x7feb352d);
  v ^= v >>> 15;
  v = Math.imul(v, 0x846ca68b);
  return (v ^ (v >>> 13)) >>> 0;
};

/** What a page holds of one token: a digest of it and all earlier ones. */
interface Entry {
  readonly token: number;
  readonly digest: number;
}

const digestAfter = (before: readonly Entry[]): number =>
  before.reduce((digest, entry) => mix(digest, entry.digest), 1);

/** A hidden state that depends on all tokens, exactly representable in f32. */
const stateAfter = (before: readonly Entry[]): number[] =>
  Array.from({ length: stateWidth }, (_, n) => 1 + (mix(digestAfter(before), n) % 1000));

/** The hidden state of a text's last token, computed without the scheduler. */
export function stateAlone(tokens: readonly number[]): Float32Array {
  const entries: Entry[] = [];
  for (const token of tokens) entries.push({ token, digest: mix(token, digestAfter(entries)) });
  return Float32Array.from(stateAfter(entries));
}

/** A token that is not allowed is replaced by the next one that is. */
function allowed(id: number, mask: Uint32Array | undefined): number {
  if (mask?.every((word) => word === 0)) return noToken;
  let next = id;
  while (mask && (((mask[next >> 5] as number) >>> (next & 31)) & 1) === 0) next = (next + 1) % vocabulary;
  return next;
}

/** Mostly depends on the last tokens, so that texts repeat themselves; sometimes on all of them. */
function sampleToken(
  before: readonly Entry[],
  seed: number,
  counts: Uint32Array | undefined,
  mask: Uint32Array | undefined,
): number {
  return allowed(sampleAny(before, seed, counts), mask);
}

function sampleAny(before: readonly Entry[], seed: number, counts: Uint32Array | undefined): number {
  let state = digestAfter(before);
  if (counts)
    state = counts.reduce((sum, count, id) => (count === 0 ? sum : mix(sum, mix(id, count))), state);
  state = mix(state, seed);
  if (state % 61 === 0) return endToken;
  if (state % 9 === 0) return 97 + (mix(state, 3) % letters);
  const [second = 0, first = 0] = before.slice(-2).map(({ token }) => token);
  return 97 + (mix(first, second) % letters);
}

/** A log probability derived from all earlier tokens, exactly representable in f32. */
function logprobOf(before: readonly Entry[], id: number, likeliest: number): TokenLogprob {
  const of = (token: number) => -(mix(digestAfter(before), token) % 1000) / 8;
  const top = Array.from({ length: likeliest }, (_, n) => ({ id: n, logprob: of(n) }));
  return { id, logprob: of(id), top };
}

/** The log probabilities of a text's tokens; the first has none. */
export function scoreAlone(tokens: readonly number[], likeliest: number): (TokenLogprob | null)[] {
  const entries: Entry[] = [];
  return tokens.map((token, index) => {
    const score = index === 0 ? null : logprobOf(entries, token, likeliest);
    entries.push({ token, digest: mix(token, digestAfter(entries)) });
    return score;
  });
}

/** The output of a request computed without the scheduler. */
export function outputAlone(
  { prompt, maxTokens, sampling, ignoreEnd }: GenerateRequest,
  grammar?: ToyGrammar,
): number[] {
  const entries: Entry[] = [];
  const write = (token: number) => entries.push({ token, digest: mix(token, digestAfter(entries)) });
  prompt.forEach(write);
  const counts = samplingFlagsOf(sampling) & sampleFlags.penalties ? new Uint32Array(vocabulary) : undefined;
  if (counts) for (const id of prompt) counts[id] = 0x80000000;
  const answer: number[] = [];
  while (answer.length < maxTokens) {
    const id = sampleToken(entries, mix(sampling.seed, entries.length), counts, grammar?.(answer));
    answer.push(id);
    if (counts) counts[id]! += 1;
    if (id === endToken && !ignoreEnd) break;
    write(id);
  }
  return answer;
}

/** The contents of one step. */
export interface StepRecord {
  /** Slots that decode, with the drafts they verify. */
  readonly decoding: ReadonlyMap<number, number>;
  readonly promptTokens: number;
  readonly copies: number;
}

/** Shared by all models on one device. */
interface Clock {
  /** In ms, advanced by steps that end. */
  time: number;
  /** When everything submitted will have ended. */
  end: number;
}

export class SimulatedRunner implements DraftRunner {
  readonly memory: { readonly capacity: Capacity };
  readonly graph = { shape: { vocabulary, width: stateWidth } };
  readonly steps: StepRecord[] = [];
  /** Time of a step in ms, by its decoded or verified rows and its prompt tokens. */
  cost: (rows: number, promptTokens: number) => number = (rows, prompt) => 5 + rows + 2 * prompt;
  /** Step counts of submitted chains. */
  readonly chains: number[] = [];
  /** Fraction of sampled tokens that differ from the other model's. */
  readonly wrong: number;
  readonly clock: Clock;
  /** As on a GPU, where rows of answers come before rows of prompts. */
  readonly separatesDecodeRows: boolean;
  readonly #pages: (Entry | undefined)[][];
  readonly #tables: number[][];
  /** With layer states: the digest of each slot's state, and of retained states. */
  readonly #states: number[] = [];
  readonly #retained: number[] = [];
  readonly #counts: Uint32Array[];
  readonly #masks: Uint32Array[];
  /** What the rows of the step with pending sampling attended to. */
  #pendingRows: readonly Entry[][] | undefined;
  readonly #sampled: number[] = [];
  #inFlight = 0;
  #last: Promise<unknown> = Promise.resolve();

  constructor(
    capacity: Capacity,
    {
      wrong = 0,
      clock = { time: 0, end: 0 },
      separatesDecodeRows = false,
    }: { wrong?: number; clock?: Clock; separatesDecodeRows?: boolean } = {},
  ) {
    this.separatesDecodeRows = separatesDecodeRows;
    this.memory = { capacity };
    this.wrong = wrong;
    this.clock = clock;
    this.#pages = Array.from({ length: capacity.pages }, () => []);
    this.#tables = Array.from({ length: capacity.slots }, () => []);
    this.#masks = Array.from({ length: capacity.slots }, () => new Uint32Array(maskWords(vocabulary)));
    this.#counts = Array.from({ length: capacity.slots }, () => new Uint32Array(vocabulary));
  }

  get time(): number {
    return this.clock.time;
  }

  /** No step is in flight. */
  get isIdle(): boolean {
    return this.#inFlight === 0 && !this.#pendingRows;
  }

  newStep(): StepInput {
    const { slots, stepTokens } = this.memory.capacity;
    const layout = stepLayout({ slots, tokens: stepTokens, tileTokens });
    return new StepInput(layout, {
      tileTokens,
      splitTokens: 512,
      separatesDecodeRows: this.separatesDecodeRows,
    });
  }

  setPages(slot: number, pages: readonly number[], first = 0): void {
    pages.slice(first).forEach((page, index) => (this.#tables[slot]![first + index] = page));
  }

  setBias(): void {}

  setTokenCounts(slot: number, counts: Uint32Array<ArrayBuffer>): void {
    this.#counts[slot] = counts.slice();
  }

  setMask(slot: number, mask: Uint32Array | undefined): void {
    this.#masks[slot] = mask?.slice() ?? new Uint32Array(maskWords(vocabulary)).fill(0xffffffff);
  }

  submit(step: StepInput): Promise<Uint32Array> {
    this.forward(step);
    return this.sample(step);
  }

  forward(step: StepInput): void {
    if (this.#pendingRows) throw new Error('a step begins before the last one has drawn');
    if (++this.#inFlight > 2) throw new Error('more than two steps in flight');
    for (const { from, to } of step.pageCopies) {
      if (from === to) throw new Error(`page ${from} is copied to itself`);
      this.#pages[to] = [...this.#pages[from]!];
    }
    for (const { kind, slot, retainedIndex } of step.stateCopies) {
      if (retainedIndex >= (this.memory.capacity.retainedStates ?? 0))
        throw new Error(`no state is kept at ${retainedIndex}`);
      if (kind === 'save') this.#retained[retainedIndex] = this.#states[slot]!;
      else this.#states[slot] = this.#retained[retainedIndex]!;
    }
    this.#pendingRows = this.#computeRows(step);
  }

  sample(step: StepInput): Promise<Uint32Array> {
    if (!this.#pendingRows) throw new Error('no step has begun');
    const results = this.#sampleRows(step, this.#pendingRows);
    this.#pendingRows = undefined;
    this.#pass(step);
    return this.#ended(results);
  }

  submitChain(steps: Iterable<StepInput>): Promise<Uint32Array> {
    if (this.#pendingRows) throw new Error('steps of a chain stand between the halves of a step');
    if (++this.#inFlight > 2) throw new Error('more than two steps in flight');
    const sampledIds: number[] = [];
    let count = 0;
    for (const step of steps) {
      if (step.dims.needsLogprobs) throw new Error('a step of a chain reports log probabilities');
      sampledIds.push(...this.#sampleRows(step, this.#computeRows(step)));
      this.#pass(step);
      count += 1;
    }
    this.chains.push(count);
    return this.#ended(new Uint32Array(sampledIds));
  }

  /** Records a step and advances the clock. */
  #pass(step: StepInput): void {
    const record = this.#record(step);
    this.steps.push(record);
    const drafts = [...record.decoding.values()].reduce((sum, count) => sum + count, 0);
    const takes = this.cost(record.decoding.size + drafts, record.promptTokens);
    this.clock.end = Math.max(this.clock.end, this.time) + takes;
  }

  #ended(results: Uint32Array): Promise<Uint32Array> {
    const { end } = this.clock;
    const done = this.#last.then(async () => {
      await new Promise((resolve) => setImmediate(resolve));
      this.clock.time = end;
      this.#inFlight -= 1;
      return results;
    });
    this.#last = done;
    return done;
  }

  /** For each row, all that it attends to. */
  #computeRows(step: StepInput): Entry[][] {
    const { capacity } = this.memory;
    const { dims, layout } = step;
    if (dims.tokens > capacity.stepTokens) throw new Error('more tokens than a step holds');
    if (dims.samples > maxStepSamples(capacity.slots)) throw new Error('more samples than a step takes');
    const maxTiles = this.separatesDecodeRows ? maxStepSamples(capacity.slots) : capacity.slots;
    if (dims.singleTiles > maxTiles || dims.splitTiles > capacity.slots)
      throw new Error('more tiles of one token than fit');
    const words = step.bytes();
    const rows: Entry[][] = [];
    for (let row = 0; row < dims.tokens; row++) {
      const [id, position, slot] = words.subarray(layout.tokens / 4 + row * 4) as unknown as number[];
      const token = id === feedbackToken ? this.#sampled[slot!]! : id!;
      const before = this.#read(slot!, position!);
      const entry = { token, digest: mix(token, digestAfter(before)) };
      this.#pageOf(slot!, position!)[position! % pageTokens] = entry;
      if (capacity.retainedStates !== undefined) this.#advance(slot!, before, entry);
      rows.push([...before, entry]);
    }
    return rows;
  }

  /** A state covers all earlier tokens and cannot be rolled back. */
  #advance(slot: number, before: readonly Entry[], entry: Entry): void {
    if (before.length > 0 && this.#states[slot] !== digestAfter(before))
      throw new Error(`the state of slot ${slot} is not that behind ${before.length} tokens`);
    this.#states[slot] = digestAfter([...before, entry]);
  }

  #sampleRows(step: StepInput, rows: readonly Entry[][]): Uint32Array {
    const { dims, layout } = step;
    const words = step.bytes();
    const lengths = [1, dims.needsLogprobs ? logprobWords : 0, step.readsHiddenStates ? stateWidth : 0];
    const results = new Uint32Array(dims.samples * lengths.reduce((sum, length) => sum + length));
    const floats = new Float32Array(results.buffer);
    for (let index = 0; index < dims.samples; index++) {
      const [row, slot, flags, seed, position] = words.subarray(
        layout.samples / 4 + index * sampleWords,
      ) as unknown as number[];
      const before = rows[row!]!;
      if (step.readsHiddenStates)
        floats.set(stateAfter(before), results.length - (dims.samples - index) * stateWidth);
      let id = seed!;
      if ((flags! & sampleFlags.scored) === 0) {
        if (before.length !== position) throw new Error(`position ${position} after ${before.length} tokens`);
        const counts = flags! & sampleFlags.penalties ? this.#counts[slot!] : undefined;
        id = sampleToken(
          before,
          mix(seed!, position),
          counts,
          flags! & sampleFlags.mask ? this.#masks[slot!] : undefined,
        );
        if (this.wrong > 0 && mix(mix(digestAfter(before), seed!), 5) % 1000 < this.wrong * 1000)
          id = id === endToken ? 97 : endToken;
        if (counts && id !== noToken) counts[id]! += 1;
        results[index] = id;
        this.#sampled[slot!] = id;
      }
      if ((flags! & sampleFlags.logprobs) === 0) continue;
      const { logprob, top } = logprobOf(before, id, flags! >>> topLogprobsShift);
      const at = dims.samples + index * logprobWords;
      floats[at] = logprob;
      results[at + 1] = top.length;
      for (const [n, one] of top.entries()) {
        results[at + 2 + 2 * n] = one.id;
        floats[at + 3 + 2 * n] = one.logprob;
      }
    }
    return results;
  }

  #pageOf(slot: number, position: number): (Entry | undefined)[] {
    const page = this.#pages[this.#tables[slot]?.[Math.floor(position / pageTokens)] ?? -1];
    if (!page) throw new Error(`slot ${slot} has no page for position ${position}`);
    return page;
  }

  #read(slot: number, count: number): Entry[] {
    return Array.from({ length: count }, (_, position) => {
      const entry = this.#pageOf(slot, position)[position % pageTokens];
      if (!entry) throw new Error(`slot ${slot} reads position ${position}, which was never written`);
      return entry;
    });
  }

  #record(step: StepInput): StepRecord {
    const { dims, layout, pageCopies: copies } = step;
    const words = step.bytes();
    const samples = new Map<number, number>();
    for (let index = 0; index < dims.samples; index++) {
      const slot = words[layout.samples / 4 + index * sampleWords + 1]!;
      if (slot === layout.dummySlot) continue;
      samples.set(slot, (samples.get(slot) ?? 0) + 1);
    }
    const decoding = new Map<number, number>();
    for (let tile = 0; tile < dims.singleTiles; tile++) {
      const slot = words[layout.singleTiles / 4 + tile * 4 + 2]!;
      if (decoding.has(slot) && !this.separatesDecodeRows)
        throw new Error(`slot ${slot} decodes twice in one step`);
      decoding.set(slot, 0);
    }
    for (const [slot, count] of samples) if (count > 1) decoding.set(slot, count - 1);
    let promptTokens = 0;
    for (let row = 0; row < dims.tokens; row++) {
      if (!decoding.has(words[layout.tokens / 4 + row * 4 + 2]!)) promptTokens += 1;
    }
    return { decoding, promptTokens, copies: copies.length };
  }
}

export const newSequence = (
  request: ConstructorParameters<typeof Sequence>[0],
  runner: SimulatedRunner,
  observer?: RequestObserver,
): Sequence => new Sequence(request, new ByteTokenizer(), runner.time, observer);

/** The ids of an output and its last event. */
export async function read(sequence: Sequence) {
  const ids: number[] = [];
  const progress: PromptProgress[] = [];
  let end: Extract<GenerationEvent, { type: 'end' }> | undefined;
  for await (const event of sequence.events()) {
    if (event.type === 'end') end = event;
    else if (event.type === 'text') ids.push(...event.ids);
    else progress.push(event);
  }
  if (!end) throw new Error('the answer has no end');
  return { ids, end, progress };
}
