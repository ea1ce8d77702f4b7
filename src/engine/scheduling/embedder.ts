/** Queue of embedding requests and the steps that compute them: several texts in a step, requests served in turn. */
import { pageTokens } from '../../../kernels/rope-kv-write.ts';
import { errorMessage } from '../../util/error-message.ts';
import type { Embedding } from '../graph/graph.ts';
import type { Capacity } from '../memory/memory.ts';
import { pipelineDepth } from '../execution/runner.ts';
import type { StepInput } from '../execution/step.ts';
import { EngineError, greedySampling } from '../types.ts';
import { EmbeddingJobs, type StartedText, type TextTokens } from './embedding-jobs.ts';

/** The part of `Runner` that the embedder needs. Calls take effect in order. */
export interface EmbeddingRunner {
  readonly memory: { readonly capacity: Capacity };
  readonly graph: { readonly shape: { readonly embedding?: Embedding } };
  newStep(): StepInput;
  embed(step: StepInput): Promise<Float32Array<ArrayBuffer>[]>;
  setPages(slot: number, pages: readonly number[]): void;
}

/** A text being computed. It holds a slot and pages until its last step is submitted. */
interface RunningText {
  readonly text: StartedText;
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
  readonly #jobs = new EmbeddingJobs();
  readonly #running: RunningText[] = [];
  readonly #freeSlots: number[];
  readonly #freePages: number[];
  readonly #step: StepInput;
  readonly #onFailure: (reason: string) => void;
  /** Acquires the device exclusively, runs the work, and releases the device. */
  readonly #withDevice: (work: () => Promise<void>) => Promise<void>;
  #isBusy = false;

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
    return this.#jobs.running;
  }

  get waiting(): number {
    return this.#jobs.waiting;
  }

  /**
   * Computes one row for each text, in order, not normalized.
   * @param inputs each of 1 to `context` tokens
   * @param signal rejects the request with the signal's reason; a running step completes
   */
  embed(inputs: readonly TextTokens[], signal?: AbortSignal): Promise<Float32Array[]> {
    const rows = this.#jobs.add(inputs, signal);
    this.#start();
    return rows;
  }

  /** Rejects all requests and forms no further step. */
  stop(reason: unknown): void {
    this.#jobs.stop(reason);
  }

  #start(): void {
    if (this.#isBusy || this.#jobs.isStopped || this.#jobs.peekLength() === undefined) return;
    this.#isBusy = true;
    this.#withDevice(() => this.#run())
      .catch((error: unknown) => {
        if (this.#jobs.isStopped) return;
        const why = errorMessage(error);
        this.stop(new EngineError('device_lost', `the GPU failed in the middle of a step: ${why}`));
        this.#onFailure(why);
      })
      .finally(() => {
        this.#isBusy = false;
        // A request may have arrived between the last check and the end of the run.
        this.#start();
      });
  }

  async #run(): Promise<void> {
    const inFlight: InFlightStep[] = [];
    try {
      for (;;) {
        while (inFlight.length < pipelineDepth && !this.#jobs.isStopped) {
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
        for (const [at, { text }] of oldest.finishing.entries()) text.deliver(rows[at] as Float32Array);
      }
    } finally {
      // The device must not be destroyed while it is computing.
      await Promise.allSettled(inFlight.map(({ results }) => results));
    }
  }

  #compose(): InFlightStep | undefined {
    const step = this.#step;
    step.clear();
    for (const one of this.#running.filter(({ text }) => !text.isWanted)) this.#release(one);
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
      const { tokens, secondSegment } = one.text;
      const row = step.encodeSequence(tokens, one.slot, this.#embedding, secondSegment);
      step.sample(row, one.slot, tokens.length, greedySampling);
      one.scheduledTokens = tokens.length;
      finishing.push(one);
    }
  }

  /** Divides the step's tokens among the running texts; tokens that short texts do not need go to the others. */
  #addChunks(step: StepInput): RunningText[] {
    const { stepTokens } = this.#runner.memory.capacity;
    while (this.#running.length < stepTokens && this.#admit(Number.POSITIVE_INFINITY));
    const finishing: RunningText[] = [];
    const remainingTokens = (one: RunningText) => one.text.tokens.length - one.scheduledTokens;
    const shortestFirst = [...this.#running].sort((a, b) => remainingTokens(a) - remainingTokens(b));
    for (const [index, one] of shortestFirst.entries()) {
      const tokenShare = Math.floor((stepTokens - step.dims.tokens) / (shortestFirst.length - index));
      const count = Math.min(remainingTokens(one), tokenShare);
      const row = step.prefillTokens(one.text.tokens, one.scheduledTokens, count, one.slot);
      one.scheduledTokens += count;
      if (remainingTokens(one) > 0) continue;
      step.sample(row, one.slot, one.scheduledTokens, greedySampling);
      finishing.push(one);
    }
    return finishing;
  }

  /** Starts the next text if slots, pages and tokens allow; its request moves to the end of the queue. */
  #admit(maxTokens: number): RunningText | undefined {
    const tokens = this.#jobs.peekLength();
    const slot = this.#freeSlots.at(-1);
    if (tokens === undefined || slot === undefined) return undefined;
    const count = Math.ceil(tokens / pageTokens);
    if (tokens > maxTokens || count > this.#freePages.length) return undefined;
    this.#freeSlots.pop();
    const pages = this.#freePages.splice(this.#freePages.length - count);
    this.#runner.setPages(slot, pages);
    const one: RunningText = { text: this.#jobs.take() as StartedText, slot, pages, scheduledTokens: 0 };
    this.#running.push(one);
    return one;
  }

  #release(one: RunningText): void {
    this.#running.splice(this.#running.indexOf(one), 1);
    this.#freeSlots.push(one.slot);
    this.#freePages.push(...one.pages);
  }
}
