import { noToken, sampleFlags } from '../../kernels/sample.ts';
import { pageTokens } from '../../kernels/rope-kv-write.ts';
import { PagePool } from './page-pool.ts';
import { pipelineDepth, type Runner } from './runner.ts';
import type { Sequence } from './sequence.ts';
import { feedback, flagsOf, type StepInput } from './step.ts';
import { EngineError } from './types.ts';

/** A submitted step: whose tokens its results are, in order. */
interface InFlight {
  readonly owners: Sequence[];
  readonly prefillTokens: number;
  readonly results: Promise<Uint32Array>;
}

/** Longest that a step with prompt tokens should take, in ms: while others wait for their next token, and alone. */
const sharedStepMs = 250;
const loneStepMs = 1000;
const firstChunk = 32;
const leastChunk = 8;

/**
 * Forms steps from what waits and runs: a token for every decoding sequence, and prompt tokens of the oldest
 * prefilling ones as far as the budget goes. The next step is encoded while the last one runs; its tokens come
 * from the GPU itself, so nothing waits for a readback. A sequence that ended in the meantime drops its share.
 */
export class Scheduler {
  readonly #runner: Runner;
  readonly #pages: PagePool;
  readonly #slots: (Sequence | undefined)[];
  readonly #waiting: Sequence[] = [];
  readonly #inFlight: InFlight[] = [];
  /** Written to the GPU when submitted, so one serves all steps. */
  readonly #step: StepInput;
  readonly #now: () => number;
  /** Of a prompt token, as measured; undefined until a step had enough of them. */
  #prefillTokenMs: number | undefined;
  #loop: Promise<void> | undefined;
  #stopped = false;
  readonly #idle: (() => void)[] = [];

  constructor(runner: Runner, now: () => number) {
    const { capacity } = runner.memory;
    this.#runner = runner;
    this.#now = now;
    this.#pages = new PagePool(capacity.pages);
    this.#slots = Array.from({ length: capacity.slots }, () => undefined);
    this.#step = runner.newStep();
  }

  get running(): number {
    return this.#slots.reduce((count, one) => count + (one ? 1 : 0), 0);
  }

  get waiting(): number {
    return this.#waiting.length;
  }

  get freePages(): number {
    return this.#pages.free;
  }

  add(sequence: Sequence): void {
    this.#waiting.push(sequence);
    this.#start();
  }

  /** Ends a sequence wherever it is; its slot and pages are free at once, because the GPU works in order. */
  cancel(sequence: Sequence, reason: unknown): void {
    sequence.fail(reason);
    const at = this.#waiting.indexOf(sequence);
    if (at >= 0) this.#waiting.splice(at, 1);
    this.#release(sequence);
    this.#start();
  }

  /** Resolves when no step is on its way. */
  async settled(): Promise<void> {
    if (!this.#loop) return;
    await new Promise<void>((resolve) => this.#idle.push(resolve));
  }

  /** Fails everything and forms no further step. */
  stop(reason: unknown): void {
    this.#stopped = true;
    for (const sequence of [...this.#waiting, ...this.#slots]) sequence?.fail(reason);
    this.#waiting.length = 0;
    this.#slots.fill(undefined);
  }

  #start(): void {
    if (this.#loop || this.#stopped) return;
    this.#loop = this.#run()
      .catch((error: unknown) => {
        const why = error instanceof Error ? error.message : String(error);
        this.stop(new EngineError('device_lost', `the GPU failed in the middle of a step: ${why}`));
      })
      .finally(() => {
        this.#loop = undefined;
        // Something may have come between the last look and the end of the loop.
        if (this.#waiting.length > 0 && !this.#stopped) this.#start();
        else this.#idle.splice(0).forEach((resolve) => resolve());
      });
  }

  async #run(): Promise<void> {
    while (!this.#stopped) {
      while (this.#inFlight.length < pipelineDepth) {
        this.#admit();
        const step = this.#compose();
        if (!step) break;
        // It is awaited in its turn; until then a failure of it must not count as one that nobody handles.
        step.results.catch(() => undefined);
        this.#inFlight.push(step);
      }
      const oldest = this.#inFlight[0];
      if (!oldest) return;
      const before = this.#now();
      let results: Uint32Array;
      try {
        results = await oldest.results;
      } finally {
        this.#inFlight.shift();
      }
      this.#learn(oldest, this.#now() - before);
      this.#deliver(oldest, results);
    }
    // Stopped: the device may be destroyed only when it works on nothing.
    await Promise.allSettled(this.#inFlight.splice(0).map(({ results }) => results));
  }

  #admit(): void {
    for (;;) {
      const sequence = this.#waiting[0];
      const slot = this.#slots.indexOf(undefined);
      if (!sequence || slot < 0) return;
      const { prompt, maxTokens } = sequence.request;
      const pages = this.#pages.take(Math.ceil((prompt.length + maxTokens) / pageTokens));
      // First come, first served: a smaller one behind it does not overtake.
      if (!pages) return;
      this.#waiting.shift();
      this.#slots[slot] = sequence;
      sequence.slot = slot;
      sequence.pages = pages;
      sequence.phase = 'prefill';
      sequence.started = this.#now();
      this.#runner.setPages(slot, pages);
      this.#setSampling(sequence);
    }
  }

  #setSampling(sequence: Sequence): void {
    const { sampling, prompt } = sequence.request;
    const flags = flagsOf(sampling);
    const { vocabulary } = this.#runner.graph.shape;
    if (flags & sampleFlags.bias) {
      const bias = new Float32Array(vocabulary);
      for (const [id, amount] of sampling.logitBias) bias[id] = amount;
      this.#runner.setBias(sequence.slot, bias);
    }
    if (flags & sampleFlags.penalties) {
      const seen = new Uint32Array(vocabulary);
      for (const id of prompt) seen[id] = 0x80000000;
      this.#runner.setSeen(sequence.slot, seen);
    }
  }

  #compose(): InFlight | undefined {
    const step = this.#step;
    step.clear();
    const owners: Sequence[] = [];
    for (const sequence of this.#slots) {
      if (sequence?.phase !== 'decode' || sequence.drawn >= sequence.request.maxTokens) continue;
      const row = step.decodeToken(feedback, sequence.scheduled, sequence.slot);
      this.#sample(step, sequence, row, 1, owners);
    }
    const prefillTokens = this.#addPrompts(step, owners);
    if (step.dims.tokens === 0) return undefined;
    return { owners, prefillTokens, results: this.#runner.submit(step) };
  }

  /** Prompt tokens for one step: the oldest first, each as much as is left. */
  #addPrompts(step: StepInput, owners: Sequence[]): number {
    const room = this.#runner.memory.capacity.stepTokens - step.dims.tokens;
    let left = Math.min(this.#chunk(owners.length > 0), room);
    let added = 0;
    const prefilling = this.#slots.filter((one) => one?.phase === 'prefill') as Sequence[];
    prefilling.sort((a, b) => a.started - b.started);
    for (const sequence of prefilling) {
      if (left <= 0) break;
      const { prompt } = sequence.request;
      const count = Math.min(left, prompt.length - sequence.scheduled);
      const row = step.prefillTokens(prompt, sequence.scheduled, count, sequence.slot);
      left -= count;
      added += count;
      if (sequence.scheduled + count === prompt.length) {
        sequence.phase = 'decode';
        this.#sample(step, sequence, row, count, owners);
      } else {
        sequence.scheduled += count;
      }
    }
    return added;
  }

  #sample(step: StepInput, sequence: Sequence, row: number, count: number, owners: Sequence[]): void {
    sequence.scheduled += count;
    sequence.drawn += 1;
    step.sample(row, sequence.slot, sequence.scheduled, sequence.request.sampling);
    owners.push(sequence);
  }

  /** Prompt tokens for the next step, so that they do not stall running answers. */
  #chunk(shared: boolean): number {
    if (this.#prefillTokenMs === undefined) return firstChunk;
    const fit = (shared ? sharedStepMs : loneStepMs) / this.#prefillTokenMs;
    return Math.max(leastChunk, Math.floor(fit / leastChunk) * leastChunk);
  }

  #learn(step: InFlight, ms: number): void {
    if (step.prefillTokens < leastChunk) return;
    const measured = ms / step.prefillTokens;
    this.#prefillTokenMs =
      this.#prefillTokenMs === undefined ? measured : (this.#prefillTokenMs + measured) / 2;
  }

  #deliver(step: InFlight, results: Uint32Array): void {
    const now = this.#now();
    step.owners.forEach((sequence, index) => {
      if (sequence.phase === 'done') return;
      const id = results[index] as number;
      if (id === noToken) {
        this.cancel(
          sequence,
          new EngineError(
            'broken_model',
            'no token can be drawn, because the logits are not numbers: the model file is damaged, or its values overflow',
          ),
        );
        return;
      }
      sequence.accept(id, now);
      if ((sequence.phase as string) === 'done') this.#release(sequence);
    });
  }

  #release(sequence: Sequence): void {
    if (sequence.slot < 0 || this.#slots[sequence.slot] !== sequence) return;
    this.#slots[sequence.slot] = undefined;
    this.#pages.give(sequence.pages);
    sequence.pages = [];
  }
}
