/**
 * A GPU made of arithmetic, for the scheduler: it runs steps in the order of their submission against paged memory, and
 * draws tokens that depend on every token before them as the page table shows it. Time is what its steps cost.
 */
import { pageTokens } from '../../kernels/rope-kv-write.ts';
import { sampleFlags, sampleWords } from '../../kernels/sample.ts';
import type { Capacity } from '../../src/engine/memory.ts';
import type { StepRunner } from '../../src/engine/scheduler.ts';
import { Sequence } from '../../src/engine/sequence.ts';
import { feedback, flagsOf, StepInput, stepLayout, stepSamples } from '../../src/engine/step.ts';
import type { GenerateRequest, GenerationEvent } from '../../src/engine/types.ts';
import { ByteTokenizer } from './scripted-engine.ts';

const tileTokens = 4;
const vocabulary = 259;
const endToken = 257;
/** Answers are made of so many letters. */
const letters = 12;

const mix = (a: number, b: number): number => {
  let v = Math.imul(a ^ Math.imul(b + 0x9e3779b9, 0x85ebca6b), 0x7feb352d);
  v ^= v >>> 15;
  v = Math.imul(v, 0x846ca68b);
  return (v ^ (v >>> 13)) >>> 0;
};

/** What a page holds of one token: a digest of it and all before it. */
interface Entry {
  readonly token: number;
  readonly digest: number;
}

const digestAfter = (before: readonly Entry[]): number =>
  before.reduce((digest, entry) => mix(digest, entry.digest), 1);

/** Mostly what follows from the last tokens, so that texts repeat themselves; sometimes from all of them. */
function draw(before: readonly Entry[], seed: number, seen: Uint32Array | undefined): number {
  let state = digestAfter(before);
  if (seen) state = seen.reduce((sum, count, id) => (count === 0 ? sum : mix(sum, mix(id, count))), state);
  state = mix(state, seed);
  if (state % 61 === 0) return endToken;
  if (state % 9 === 0) return 97 + (mix(state, 3) % letters);
  const [second = 0, first = 0] = before.slice(-2).map(({ token }) => token);
  return 97 + (mix(first, second) % letters);
}

/** What a request answers alone, without any of the scheduler. */
export function answerAlone({ prompt, maxTokens, sampling, ignoreEnd }: GenerateRequest): number[] {
  const entries: Entry[] = [];
  const write = (token: number) => entries.push({ token, digest: mix(token, digestAfter(entries)) });
  prompt.forEach(write);
  const seen = flagsOf(sampling) & sampleFlags.penalties ? new Uint32Array(vocabulary) : undefined;
  if (seen) for (const id of prompt) seen[id] = 0x80000000;
  const answer: number[] = [];
  while (answer.length < maxTokens) {
    const id = draw(entries, mix(sampling.seed, entries.length), seen);
    answer.push(id);
    if (seen) seen[id]! += 1;
    if (id === endToken && !ignoreEnd) break;
    write(id);
  }
  return answer;
}

/** What one step held. */
export interface StepRecord {
  /** Slots that decode, with the drafts they verify. */
  readonly decoding: ReadonlyMap<number, number>;
  readonly promptTokens: number;
  readonly copies: number;
}

export class SimulatedRunner implements StepRunner {
  readonly memory: { readonly capacity: Capacity };
  readonly graph = { shape: { vocabulary } };
  readonly steps: StepRecord[] = [];
  /** In ms: of a step, by the rows it decodes or verifies and its prompt tokens. */
  cost: (rows: number, promptTokens: number) => number = (rows, prompt) => 5 + rows + 2 * prompt;
  /** In ms, moved by the steps that end. */
  time = 0;
  readonly #pages: (Entry | undefined)[][];
  readonly #tables: number[][];
  readonly #seen: Uint32Array[];
  readonly #sampled: number[] = [];
  #inFlight = 0;
  #end = 0;
  #last: Promise<unknown> = Promise.resolve();

  constructor(capacity: Capacity) {
    this.memory = { capacity };
    this.#pages = Array.from({ length: capacity.pages }, () => []);
    this.#tables = Array.from({ length: capacity.slots }, () => []);
    this.#seen = Array.from({ length: capacity.slots }, () => new Uint32Array(vocabulary));
  }

  newStep(): StepInput {
    const { slots, stepTokens } = this.memory.capacity;
    const layout = stepLayout({ slots, tokens: stepTokens, tileTokens });
    return new StepInput(layout, { tileTokens, splitTokens: 512 });
  }

  setPages(slot: number, pages: readonly number[], first = 0): void {
    pages.slice(first).forEach((page, index) => (this.#tables[slot]![first + index] = page));
  }

  setBias(): void {}

  setSeen(slot: number, seen: Uint32Array<ArrayBuffer>): void {
    this.#seen[slot] = seen.slice();
  }

  submit(step: StepInput): Promise<Uint32Array> {
    if (++this.#inFlight > 2) throw new Error('more than two steps in flight');
    for (const { from, to } of step.copies) {
      if (from === to) throw new Error(`page ${from} is copied to itself`);
      this.#pages[to] = [...this.#pages[from]!];
    }
    const results = this.#execute(step);
    const record = this.#record(step);
    this.steps.push(record);
    const drafts = [...record.decoding.values()].reduce((sum, count) => sum + count, 0);
    const takes = this.cost(record.decoding.size + drafts, record.promptTokens);
    const end = Math.max(this.#end, this.time) + takes;
    this.#end = end;
    const done = this.#last.then(async () => {
      await new Promise((resolve) => setImmediate(resolve));
      this.time = end;
      this.#inFlight -= 1;
      return results;
    });
    this.#last = done;
    return done;
  }

  #execute(step: StepInput): Uint32Array {
    const { capacity } = this.memory;
    const { dims, layout } = step;
    if (dims.tokens > capacity.stepTokens) throw new Error('more tokens than a step holds');
    if (dims.samples > stepSamples(capacity.slots)) throw new Error('more samples than a step takes');
    if (dims.singleTiles > capacity.slots) throw new Error('more single tiles than slots');
    const words = step.bytes();
    const rows: Entry[][] = [];
    for (let row = 0; row < dims.tokens; row++) {
      const [id, position, slot] = words.subarray(layout.tokens / 4 + row * 4) as unknown as number[];
      const token = id === feedback ? this.#sampled[slot!]! : id!;
      const before = this.#read(slot!, position!);
      const entry = { token, digest: mix(token, digestAfter(before)) };
      this.#pageOf(slot!, position!)[position! % pageTokens] = entry;
      rows.push([...before, entry]);
    }
    const results = new Uint32Array(dims.samples);
    for (let index = 0; index < dims.samples; index++) {
      const [row, slot, flags, seed, position] = words.subarray(
        layout.samples / 4 + index * sampleWords,
      ) as unknown as number[];
      const before = rows[row!]!;
      if (before.length !== position) throw new Error(`position ${position} after ${before.length} tokens`);
      const seen = flags! & sampleFlags.penalties ? this.#seen[slot!] : undefined;
      const id = draw(before, mix(seed!, position), seen);
      if (seen) seen[id]! += 1;
      results[index] = id;
      this.#sampled[slot!] = id;
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
    const { dims, layout, copies } = step;
    const words = step.bytes();
    const samples = new Map<number, number>();
    for (let index = 0; index < dims.samples; index++) {
      const slot = words[layout.samples / 4 + index * sampleWords + 1]!;
      samples.set(slot, (samples.get(slot) ?? 0) + 1);
    }
    const decoding = new Map<number, number>();
    for (let tile = 0; tile < dims.singleTiles; tile++) {
      const slot = words[layout.singleTiles / 4 + tile * 4 + 2]!;
      if (decoding.has(slot)) throw new Error(`slot ${slot} decodes twice in one step`);
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

export const newSequence = (request: GenerateRequest, runner: SimulatedRunner): Sequence =>
  new Sequence(request, new ByteTokenizer(), runner.time);

/** The ids of an answer and its last event. */
export async function read(sequence: Sequence) {
  const ids: number[] = [];
  let end: Extract<GenerationEvent, { type: 'end' }> | undefined;
  for await (const event of sequence.events()) {
    if (event.type === 'end') end = event;
    else ids.push(...event.ids);
  }
  if (!end) throw new Error('the answer has no end');
  return { ids, end };
}
