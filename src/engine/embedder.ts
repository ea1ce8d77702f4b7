/** Queue of embedding requests and the steps that compute them: several texts in a step, requests served in turn. */
import { pageTokens } from '../../kernels/rope-kv-write.ts';
import { errorMessage } from '../util/error-message.ts';
import type { Embedding } from './graph.ts';
import type { Capacity } from './memory.ts';
import { pipelineDepth } from './runner.ts';
import type { StepInput } from './step.ts';
import { EngineError, greedy } from './types.ts';

/** The part of `Runner` that the embedder needs. Calls take effect in order. */
export interface EmbeddingRunner {
  readonly memory: { readonly capacity: Capacity };
  readonly graph: { readonly shape: { readonly embedding?: Embedding } };
  newStep(): StepInput;
  embed(step: StepInput): Promise<Float32Array<ArrayBuffer>[]>;
  setPages(slot: number, pages: readonly number[]): void;
}

/** One embedding request: its texts and the rows computed so far. */
interface Job {
  readonly inputs: readonly (readonly number[])[];
  readonly rows: Float32Array[];
  /** Index of the next text that no step has started. */
  next: number;
  /** Number of texts whose rows are not computed yet. */
  missing: number;
  settled: boolean;
  resolve(rows: Float32Array[]): void;
  reject(reason: unknown): void;
}

/** A text being computed. It holds a slot and pages until its last step is submitted. */
interface Running {
  readonly job: Job;
  readonly index: number;
  readonly slot: number;
  readonly pages: readonly number[];
  /** Tokens in submitted steps. */
  scheduled: number;
}

interface InFlight {
  /** Texts that end in this step, in the order of the result rows. */
  readonly ends: readonly Running[];
  readonly results: Promise<Float32Array<ArrayBuffer>[]>;
}

/**
 * Forms steps from the texts of all requests in turn, so that a request of one text does not wait for one of
 * thousands. Where a step must hold whole texts, a text that does not fit starts the next step; otherwise the running
 * texts share the step's tokens. The next step is encoded while one runs.
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
  /** Acquires the device exclusively, runs the work, and releases the device. */
  readonly #withDevice: (work: () => Promise<void>) => Promise<void>;
  #busy = false;
  /** Set when no further step runs: why. */
  #stopped: { readonly reason: unknown } | undefined;

  constructor(
    runner: EmbeddingRunner,
    options: {
      withDevice: (work: () => Promise<void>) => Promise<void>;
      /** Called when a step failed; this embedder cannot run further steps. */
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

  /** Requests with at least one text started. */
  get running(): number {
    return this.#jobs.filter(({ next }) => next > 0).length;
  }

  get waiting(): number {
    return this.#jobs.length - this.running;
  }

  /**
   * Computes one row for each text, in order, not normalized.
   * @param inputs token ids of each text: 1 to `context` tokens
   * @param signal rejects the request with the signal's reason; a running step completes
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

  /** Rejects all requests and forms no further step. */
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
        // A request may have arrived between the last check and the end of the run.
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
          // It is awaited later; this handler prevents an unhandled rejection until then.
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
      // The device must not be destroyed while it is computing.
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
    // The GPU executes steps in order, so the next user of these pages writes after this step.
    for (const end of ends) this.#release(end);
    return { ends, results };
  }

  /** Adds whole texts in order while they fit. */
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

  /** Divides the step's tokens among the running texts; tokens that short texts do not need go to the others. */
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

  /** Starts the next text if slots, pages and tokens allow; its request moves to the end of the queue. */
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
