/** What embedding requests wait for, and the steps that answer them: several texts a step, requests by turns. */
import { pageTokens } from '../../kernels/rope-kv-write.ts';
import { errorMessage } from '../util/error-message.ts';
import type { Embedding } from './graph.ts';
import type { Capacity } from './memory.ts';
import { pipelineDepth } from './runner.ts';
import type { StepInput } from './step.ts';
import { EngineError, greedy } from './types.ts';

/** What the embedder needs of a `Runner`. Everything it is given takes effect in the order of the calls. */
export interface EmbeddingRunner {
  readonly memory: { readonly capacity: Capacity };
  readonly graph: { readonly shape: { readonly embedding?: Embedding } };
  newStep(): StepInput;
  embed(step: StepInput): Promise<Float32Array<ArrayBuffer>[]>;
  setPages(slot: number, pages: readonly number[]): void;
}

/** One request: its texts, and what is known of them. */
interface Job {
  readonly inputs: readonly (readonly number[])[];
  readonly rows: Float32Array[];
  /** Of the next text that no step has begun. */
  next: number;
  /** Texts whose rows are not there yet. */
  missing: number;
  settled: boolean;
  resolve(rows: Float32Array[]): void;
  reject(reason: unknown): void;
}

/** A text on the GPU: it holds a slot and pages until its last step is submitted. */
interface Running {
  readonly job: Job;
  readonly index: number;
  readonly slot: number;
  readonly pages: readonly number[];
  /** Tokens in steps already submitted. */
  scheduled: number;
}

interface InFlight {
  /** Whose rows the results are, in order. */
  readonly ends: readonly Running[];
  readonly results: Promise<Float32Array<ArrayBuffer>[]>;
}

/**
 * Forms steps from texts of all requests by turns, so that a request of one text does not wait for one of thousands.
 * Where a step must hold whole texts, one that no longer fits begins the next step; elsewhere those that run share the
 * step's tokens. While a step runs the next one is encoded.
 */
export class Embedder {
  readonly #runner: EmbeddingRunner;
  readonly #embedding: Embedding;
  readonly #jobs: Job[] = [];
  readonly #running: Running[] = [];
  readonly #freeSlots: number[];
  readonly #freePages: number[];
  readonly #step: StepInput;
  readonly #onFailure: (reason: string) => void;
  /** Gets the device for itself, runs the work, and gives it back. */
  readonly #withDevice: (work: () => Promise<void>) => Promise<void>;
  #busy = false;
  /** Why nothing more is computed here. */
  #stopped: { readonly reason: unknown } | undefined;

  constructor(
    runner: EmbeddingRunner,
    options: {
      withDevice: (work: () => Promise<void>) => Promise<void>;
      /** A step failed: nothing more can run here. */
      onFailure: (reason: string) => void;
    },
  ) {
    const { embedding } = runner.graph.shape;
    if (!embedding) throw new Error('this model makes no embeddings');
    const { slots, pages } = runner.memory.capacity;
    this.#runner = runner;
    this.#embedding = embedding;
    this.#freeSlots = Array.from({ length: slots }, (_, slot) => slots - 1 - slot);
    this.#freePages = Array.from({ length: pages }, (_, page) => pages - 1 - page);
    this.#step = runner.newStep();
    this.#withDevice = options.withDevice;
    this.#onFailure = options.onFailure;
  }

  /** Requests of which a text is being computed, and others. */
  get running(): number {
    return this.#jobs.filter(({ next }) => next > 0).length;
  }

  get waiting(): number {
    return this.#jobs.length - this.running;
  }

  /**
   * A row for each text, in order, as the model makes them.
   * @param inputs each of 1 to `context` tokens
   * @param signal ends it with its reason, whatever runs
   */
  embed(inputs: readonly (readonly number[])[], signal?: AbortSignal): Promise<Float32Array[]> {
    return new Promise((resolve, reject) => {
      signal?.throwIfAborted();
      if (this.#stopped) throw this.#stopped.reason;
      if (inputs.length === 0) {
        resolve([]);
        return;
      }
      const settle = () => {
        job.settled = true;
        const at = this.#jobs.indexOf(job);
        if (at >= 0) this.#jobs.splice(at, 1);
        signal?.removeEventListener('abort', abort);
      };
      const job: Job = {
        inputs,
        rows: [],
        next: 0,
        missing: inputs.length,
        settled: false,
        resolve(rows) {
          settle();
          resolve(rows);
        },
        reject(reason) {
          settle();
          reject(reason);
        },
      };
      const abort = () => job.reject(signal?.reason);
      signal?.addEventListener('abort', abort, { once: true });
      this.#jobs.push(job);
      this.#start();
    });
  }

  /** Fails everything and forms no further step. */
  stop(reason: unknown): void {
    this.#stopped = { reason };
    for (const job of this.#jobs.splice(0)) job.reject(reason);
  }

  #start(): void {
    if (this.#busy || this.#stopped) return;
    this.#busy = true;
    this.#withDevice(() => this.#run())
      .catch((error: unknown) => {
        if (this.#stopped) return;
        const why = errorMessage(error);
        this.stop(new EngineError('device_lost', `the GPU failed in the middle of a step: ${why}`));
        this.#onFailure(why);
      })
      .finally(() => {
        this.#busy = false;
        // Something may have come between the last look and the end of the run.
        if (this.#jobs.some(hasMore)) this.#start();
      });
  }

  async #run(): Promise<void> {
    const inFlight: InFlight[] = [];
    try {
      for (;;) {
        while (inFlight.length < pipelineDepth && !this.#stopped) {
          const step = this.#compose();
          if (!step) break;
          // It is awaited in its turn; until then a failure of it must not count as one that nobody handles.
          step.results.catch(() => undefined);
          inFlight.push(step);
        }
        const oldest = inFlight[0];
        if (!oldest) return;
        const rows = await oldest.results;
        inFlight.shift();
        for (const [at, end] of oldest.ends.entries()) deliver(end, rows[at] as Float32Array);
      }
    } finally {
      // The device may be destroyed only when it works on nothing.
      await Promise.allSettled(inFlight.map(({ results }) => results));
    }
  }

  #compose(): InFlight | undefined {
    const step = this.#step;
    step.clear();
    for (const one of this.#running.filter(({ job }) => job.settled)) this.#release(one);
    const ends = this.#embedding.whole ? this.#addWhole(step) : this.#addChunks(step);
    if (step.dims.tokens === 0) return undefined;
    const results = this.#runner.embed(step);
    // The GPU works in order, so whoever gets their pages next writes after this step.
    for (const end of ends) this.#release(end);
    return { ends, results };
  }

  /** Texts as they come, as long as a whole one fits. */
  #addWhole(step: StepInput): Running[] {
    const { stepTokens } = this.#runner.memory.capacity;
    const ends: Running[] = [];
    for (;;) {
      const one = this.#admit(stepTokens - step.dims.tokens);
      if (!one) return ends;
      const text = textOf(one);
      const row = step.wholeTokens(text, one.slot, this.#embedding);
      step.sample(row, one.slot, text.length, greedy);
      one.scheduled = text.length;
      ends.push(one);
    }
  }

  /** A share of the step's tokens for each text that runs; what the short ones leave goes to the others. */
  #addChunks(step: StepInput): Running[] {
    const { stepTokens } = this.#runner.memory.capacity;
    while (this.#running.length < stepTokens && this.#admit(Number.POSITIVE_INFINITY));
    const ends: Running[] = [];
    const left = (one: Running) => textOf(one).length - one.scheduled;
    const shortestFirst = [...this.#running].sort((a, b) => left(a) - left(b));
    for (const [index, one] of shortestFirst.entries()) {
      const share = Math.floor((stepTokens - step.dims.tokens) / (shortestFirst.length - index));
      const count = Math.min(left(one), share);
      const row = step.prefillTokens(textOf(one), one.scheduled, count, one.slot);
      one.scheduled += count;
      if (left(one) > 0) continue;
      step.sample(row, one.slot, one.scheduled, greedy);
      ends.push(one);
    }
    return ends;
  }

  /** The next text by turns, when there is room for it; its request goes to the end of the line. */
  #admit(mostTokens: number): Running | undefined {
    const job = this.#jobs.find(hasMore);
    const slot = this.#freeSlots.at(-1);
    if (!job || slot === undefined) return undefined;
    const { length } = job.inputs[job.next] as readonly number[];
    const count = Math.ceil(length / pageTokens);
    if (length > mostTokens || count > this.#freePages.length) return undefined;
    this.#freeSlots.pop();
    const pages = this.#freePages.splice(this.#freePages.length - count);
    this.#runner.setPages(slot, pages);
    const one: Running = { job, index: job.next, slot, pages, scheduled: 0 };
    this.#running.push(one);
    job.next += 1;
    this.#jobs.splice(this.#jobs.indexOf(job), 1);
    this.#jobs.push(job);
    return one;
  }

  #release(one: Running): void {
    this.#running.splice(this.#running.indexOf(one), 1);
    this.#freeSlots.push(one.slot);
    this.#freePages.push(...one.pages);
  }
}

const hasMore = ({ next, inputs }: Job): boolean => next < inputs.length;

const textOf = ({ job, index }: Running): readonly number[] => job.inputs[index] as readonly number[];

function deliver({ job, index }: Running, row: Float32Array): void {
  if (job.settled) return;
  job.rows[index] = row;
  job.missing -= 1;
  if (job.missing === 0) job.resolve(job.rows);
}
