/** Queue of embedding requests and the steps that compute them: several texts in a step, requests served in turn. */
import { pageTokens } from '../../../kernels/rope-kv-write.ts';
import { errorMessage } from '../../util/error-message.ts';
import type { Embedding } from '../graph/graph.ts';
import type { Capacity } from '../memory/memory.ts';
import { pipelineDepth } from '../execution/runner.ts';
import type { StepInput } from '../execution/step.ts';
import { EngineError, greedySampling } from '../types.ts';

/** The part of `Runner` that the embedder needs. Calls take effect in order. */
export interface EmbeddingRunner {
  readonly memory: { readonly capacity: Capacity };
  readonly graph: { readonly shape: { readonly embedding?: Embedding } };
  newStep(): StepInput;
  embed(step: StepInput): Promise<Float32Array<ArrayBuffer>[]>;
  setPages(slot: number, pages: readonly number[]): void;
}

/** One embedding request: its texts and the rows computed so far. */
interface EmbeddingJob {
  readonly inputs: readonly (readonly number[])[];
  readonly rows: Float32Array[];
  /** Index of the next text that no step has started. */
  nextText: number;
  /** Number of texts whose rows are not computed yet. */
  pendingTexts: number;
  isSettled: boolean;
  resolve(rows: Float32Array[]): void;
  reject(reason: unknown): void;
}

/** A text being computed. It holds a slot and pages until its last step is submitted. */
interface RunningText {
  readonly job: EmbeddingJob;
  readonly index: number;
  readonly slot: number;
  readonly pages: readonly number[];
  /** Tokens in submitted steps. */
  scheduledTokens: number;
}

interface InFlightStep {
  /** Texts that end in this step, in the order of the result rows. */
  readonly finishing: readonly RunningText[];
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
  readonly #jobs: EmbeddingJob[] = [];
  readonly #running: RunningText[] = [];
  readonly #freeSlots: number[];
  readonly #freePages: number[];
  readonly #step: StepInput;
  readonly #onFailure: (reason: string) => void;
  /** Acquires the device exclusively, runs the work, and releases the device. */
  readonly #withDevice: (work: () => Promise<void>) => Promise<void>;
  #isBusy = false;
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
    return this.#jobs.filter(({ nextText }) => nextText > 0).length;
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
        job.isSettled = true;
        const at = this.#jobs.indexOf(job);
        if (at >= 0) this.#jobs.splice(at, 1);
        signal?.removeEventListener('abort', abort);
      };
      const job: EmbeddingJob = {
        inputs,
        rows: [],
        nextText: 0,
        pendingTexts: inputs.length,
        isSettled: false,
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
    if (this.#isBusy || this.#stopped) return;
    this.#isBusy = true;
    this.#withDevice(() => this.#run())
      .catch((error: unknown) => {
        if (this.#stopped) return;
        const why = errorMessage(error);
        this.stop(new EngineError('device_lost', `the GPU failed in the middle of a step: ${why}`));
        this.#onFailure(why);
      })
      .finally(() => {
        this.#isBusy = false;
        // A request may have arrived between the last check and the end of the run.
        if (this.#jobs.some(hasUnstartedText)) this.#start();
      });
  }

  async #run(): Promise<void> {
    const inFlight: InFlightStep[] = [];
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
        for (const [at, end] of oldest.finishing.entries()) deliver(end, rows[at] as Float32Array);
      }
    } finally {
      // The device must not be destroyed while it is computing.
      await Promise.allSettled(inFlight.map(({ results }) => results));
    }
  }

  #compose(): InFlightStep | undefined {
    const step = this.#step;
    step.clear();
    for (const one of this.#running.filter(({ job }) => job.isSettled)) this.#release(one);
    const finishing = this.#embedding.requiresWholeSequence ? this.#addWhole(step) : this.#addChunks(step);
    if (step.dims.tokens === 0) return undefined;
    const results = this.#runner.embed(step);
    // The GPU executes steps in order, so the next user of these pages writes after this step.
    for (const end of finishing) this.#release(end);
    return { finishing, results };
  }

  /** Adds whole texts in order while they fit. */
  #addWhole(step: StepInput): RunningText[] {
    const { stepTokens } = this.#runner.memory.capacity;
    const finishing: RunningText[] = [];
    for (;;) {
      const one = this.#admit(stepTokens - step.dims.tokens);
      if (!one) return finishing;
      const text = textOf(one);
      const row = step.encodeSequence(text, one.slot, this.#embedding);
      step.sample(row, one.slot, text.length, greedySampling);
      one.scheduledTokens = text.length;
      finishing.push(one);
    }
  }

  /** Divides the step's tokens among the running texts; tokens that short texts do not need go to the others. */
  #addChunks(step: StepInput): RunningText[] {
    const { stepTokens } = this.#runner.memory.capacity;
    while (this.#running.length < stepTokens && this.#admit(Number.POSITIVE_INFINITY));
    const finishing: RunningText[] = [];
    const remainingTokens = (one: RunningText) => textOf(one).length - one.scheduledTokens;
    const shortestFirst = [...this.#running].sort((a, b) => remainingTokens(a) - remainingTokens(b));
    for (const [index, one] of shortestFirst.entries()) {
      const tokenShare = Math.floor((stepTokens - step.dims.tokens) / (shortestFirst.length - index));
      const count = Math.min(remainingTokens(one), tokenShare);
      const row = step.prefillTokens(textOf(one), one.scheduledTokens, count, one.slot);
      one.scheduledTokens += count;
      if (remainingTokens(one) > 0) continue;
      step.sample(row, one.slot, one.scheduledTokens, greedySampling);
      finishing.push(one);
    }
    return finishing;
  }

  /** Starts the next text if slots, pages and tokens allow; its request moves to the end of the queue. */
  #admit(maxTokens: number): RunningText | undefined {
    const job = this.#jobs.find(hasUnstartedText);
    const slot = this.#freeSlots.at(-1);
    if (!job || slot === undefined) return undefined;
    const { length } = job.inputs[job.nextText] as readonly number[];
    const count = Math.ceil(length / pageTokens);
    if (length > maxTokens || count > this.#freePages.length) return undefined;
    this.#freeSlots.pop();
    const pages = this.#freePages.splice(this.#freePages.length - count);
    this.#runner.setPages(slot, pages);
    const one: RunningText = { job, index: job.nextText, slot, pages, scheduledTokens: 0 };
    this.#running.push(one);
    job.nextText += 1;
    this.#jobs.splice(this.#jobs.indexOf(job), 1);
    this.#jobs.push(job);
    return one;
  }

  #release(one: RunningText): void {
    this.#running.splice(this.#running.indexOf(one), 1);
    this.#freeSlots.push(one.slot);
    this.#freePages.push(...one.pages);
  }
}

const hasUnstartedText = ({ nextText, inputs }: EmbeddingJob): boolean => nextText < inputs.length;

const textOf = ({ job, index }: RunningText): readonly number[] => job.inputs[index] as readonly number[];

function deliver({ job, index }: RunningText, row: Float32Array): void {
  if (job.isSettled) return;
  job.rows[index] = row;
  job.pendingTexts -= 1;
  if (job.pendingTexts === 0) job.resolve(job.rows);
}
