/**
 * Runs the resident model on forced tokens and compares sampled results of every kernel with the CPU oracle, which gets the same
 * inputs as the GPU. An error is therefore found in the kernel that made it.
 */
import type { MatmulFamily } from '../../../kernels/matmul.ts';
import { dequantizeRows } from '../../../kernels/reference/dequantize.ts';
import { pageTokens } from '../../../kernels/rope-kv-write.ts';
import { pipelineChoicesOf, type Plan } from '../execution/plan.ts';
import type { Dispatch, PipelineChoice, Weights } from '../execution/plan-context.ts';
import { type AttentionTiling, maxStepSamples, type StepInput } from '../execution/step.ts';
import type { Gpu } from '../gpu/device.ts';
import type { Graph } from '../graph/graph.ts';
import type { Memory } from '../memory/memory.ts';
import { greedySampling } from '../types.ts';
import { checks } from './checks/index.ts';
import type { Report, Site } from './checks/check.ts';
import { productPrecision } from './checks/products.ts';
import { kernelName } from './excluded-kernels.ts';
import { KernelResults } from './judge.ts';
import { ObservedRange, type ObservedRun, runObserved } from './observe.ts';
import { seededRandom } from '../../util/random.ts';
import { pickIndexes } from './pick-indexes.ts';
import { StepRecords } from './step-records.ts';
import { type SampleSize, verifiedTokens, type WeightSamples } from './weight-samples.ts';

/** Tokens of the prompt, in two steps so that tiles are partly filled. */
const promptTokens = 64;
const firstStepTokens = 59;
/** Steps that decode forced tokens, with this many sequences each. */
const decodedSequences = [1, 1, 2, 1, 4, 1, 8, 1, 3, 1, 5, 1, 7, 1, 16, 1];
/** Rows of prompts of the classes of products: fewer and more than those of the prompt. */
const otherPromptRows = [3, 69];
/** Kernels of one layer at one row, relative to one of 59 rows: a step that is decoded has a minimum time. */
const decodedRowCost = 3;

/** The members of a runner that verification uses. */
export interface VerifiedRunner {
  readonly gpu: Gpu;
  readonly graph: Graph;
  readonly memory: Memory;
  readonly tiling: AttentionTiling;
  newStep(): StepInput;
  setPages(slot: number, pages: readonly number[]): void;
  /** Writes a step to the GPU, with all that it reads from the file. */
  writeStep(step: StepInput): Promise<void>;
}

export interface VerifyOptions {
  readonly plan: Plan;
  readonly family: MatmulFamily;
  readonly weights: Pick<Weights, 'streamed'>;
  readonly samples: WeightSamples;
  readonly size: SampleSize;
  /** Layers are left out so that it takes about this long; those that have a kernel of their own never are. */
  readonly budgetMs: number;
  readonly seed: number;
}

/** A kernel with wrong results. */
export interface WrongKernel {
  /** See `kernelName`. */
  readonly kernel: string;
  readonly op: string;
  /** Id of the dispatch with the largest error, and the output. */
  readonly at: string;
  readonly reason: string;
}

export interface Verification {
  readonly wrong: readonly WrongKernel[];
  /** Number of compared results. */
  readonly compared: number;
  readonly layers: number;
  /** By kernel and variant; for tests and calibration. */
  readonly results: ReadonlyMap<string, KernelResults>;
}

/** Overwrites activations, caches and page tables, so nothing else may run meanwhile. */
export async function verifyPlan(runner: VerifiedRunner, options: VerifyOptions): Promise<Verification> {
  return await new Verifier(runner, options).run();
}

const layerOf = ({ nodes }: Dispatch): number | undefined => {
  const layer = /^layers\.(\d+)\./.exec(nodes[0] ?? '')?.[1];
  return layer === undefined ? undefined : Number(layer);
};

interface KernelSeen {
  readonly op: string;
  readonly kernel: string;
  readonly results: KernelResults;
}

class Verifier {
  readonly #runner: VerifiedRunner;
  readonly #options: VerifyOptions;
  readonly #random: () => number;
  readonly #tokens: readonly number[];
  readonly #seen = new Map<string, KernelSeen>();
  /** Pipelines that ran. */
  readonly #ran = new Set<GPUComputePipeline>();
  /** Dispatches of each layer. */
  readonly #layers = new Map<number, Dispatch[]>();
  readonly #pages = new Map<number, readonly number[]>();
  readonly #deadline: number;

  constructor(runner: VerifiedRunner, options: VerifyOptions) {
    this.#runner = runner;
    this.#options = options;
    this.#random = seededRandom(options.seed);
    this.#tokens = verifiedTokens(runner.graph.shape.vocabulary, options.seed);
    this.#deadline = performance.now() + options.budgetMs;
    for (const dispatch of options.plan.dispatches) {
      const layer = layerOf(dispatch);
      if (layer === undefined) continue;
      const list = this.#layers.get(layer);
      if (list) list.push(dispatch);
      else this.#layers.set(layer, [dispatch]);
    }
  }

  async run(): Promise<Verification> {
    const layers = this.#runner.graph.shape.embedding ? await this.#encode() : await this.#generate();
    return {
      wrong: this.#wrong(),
      compared: [...this.#seen.values()].reduce((sum, { results }) => sum + results.count, 0),
      layers,
      results: new Map([...this.#seen].map(([key, { results }]) => [key, results] as const)),
    };
  }

  #wrong(): WrongKernel[] {
    const wrong = new Map<string, WrongKernel>();
    for (const { op, kernel, results } of this.#seen.values()) {
      const fault = results.fault();
      if (fault && !wrong.has(kernel)) wrong.set(kernel, { op, kernel, ...fault });
    }
    return [...wrong.values()];
  }

  #hasFault(): boolean {
    return this.#wrong().length > 0;
  }

  /** One layer of each kind, by its kernels, and the last one. */
  #distinctLayers(): Set<number> {
    const kinds = new Map<string, number>();
    for (const [layer, dispatches] of this.#layers) {
      const kind = dispatches
        .map(({ choices, bound }) => {
          const { in_offset: _, ...params } = bound?.params ?? {};
          return `${choices.map(({ kernel }) => kernel).join()} ${Object.values(params).join()}`;
        })
        .join('\n');
      if (!kinds.has(kind)) kinds.set(kind, layer);
    }
    return new Set([...kinds.values(), ...[...this.#layers.keys()].slice(-1)]);
  }

  /** As many layers as there is time for, when a step of `measured` layers took `ms`. */
  #affordableLayers(distinct: ReadonlySet<number>, ms: number, relativeCost: number): Set<number> {
    const perLayer = (ms / Math.max(1, distinct.size)) * relativeCost;
    const affordable = Math.floor((this.#deadline - performance.now()) / perLayer);
    const others = [...this.#layers.keys()].filter((layer) => !distinct.has(layer));
    const order = others.map((layer) => ({ layer, at: this.#random() })).sort((a, b) => a.at - b.at);
    const more = order.slice(0, Math.max(0, affordable - distinct.size)).map(({ layer }) => layer);
    return new Set([...distinct, ...more]);
  }

  #tokenAt(index: number): number {
    return this.#tokens[index % this.#tokens.length] as number;
  }

  #ids(first: number, count: number): number[] {
    return Array.from({ length: first + count }, (_, index) => this.#tokenAt(index));
  }

  /** @returns the number of compared layers */
  async #generate(): Promise<number> {
    const { memory } = this.#runner;
    const { capacity, maxPages } = memory;
    const room = Math.min(capacity.context, capacity.pages * pageTokens, maxPages * pageTokens);
    const prompt = Math.min(promptTokens, Math.max(1, room - decodedSequences.length));
    const decodes = Math.min(decodedSequences.length, room - prompt);
    const pages = Math.min(capacity.pages, Math.ceil((prompt + decodes) / pageTokens));
    // Pages are not in order, so that a kernel that ignores the page table reads others.
    const all = Array.from({ length: capacity.pages }, (_, page) => page);
    this.#setPages(0, all.slice(0, pages).toReversed());
    const slots = Math.min(capacity.slots, 1 + capacity.pages - pages);
    for (let slot = 1; slot < slots; slot++) this.#setPages(slot, [pages + slot - 1]);

    const distinct = this.#distinctLayers();
    const start = performance.now();
    const first = Math.min(firstStepTokens, prompt, capacity.stepTokens);
    const prefill = async (layers: ReadonlySet<number>, from: number, count: number) => {
      const step = this.#newStep();
      step.sample(
        step.prefillTokens(this.#ids(from, count), from, count, 0),
        0,
        from + count,
        greedySampling,
      );
      await this.#runStep(step, layers);
    };
    await prefill(distinct, 0, first);
    let layers = distinct;
    if (!this.#hasFault() && distinct.size < this.#layers.size) {
      // The rest of the prompt, and all rows that are decoded.
      const relativeCost = 1 + (decodedRowCost * decodes) / 16;
      layers = this.#affordableLayers(distinct, performance.now() - start, relativeCost);
      if (layers.size > distinct.size) await prefill(layers, 0, first);
    }
    for (let from = first; from < prompt && !this.#hasFault(); ) {
      const count = Math.min(prompt - from, capacity.stepTokens);
      await prefill(layers, from, count);
      from += count;
    }
    for (let n = 0; n < decodes && !this.#hasFault(); n++) {
      const step = this.#newStep();
      const sequences = Math.min(decodedSequences[n] ?? 1, slots);
      for (let slot = 0; slot < sequences; slot++) {
        const position = slot === 0 ? prompt + n : n;
        step.sample(
          step.decodeToken(this.#tokenAt(position + slot), position, slot),
          slot,
          position + 1,
          greedySampling,
        );
      }
      await this.#runStep(step, performance.now() > this.#deadline ? distinct : layers);
    }
    await this.#runRest(slots, room);
    return layers.size;
  }

  /** Steps of other sizes, for the kernels that have not run yet. */
  async #runRest(slots: number, room: number): Promise<void> {
    const { memory, tiling } = this.#runner;
    const { capacity } = memory;
    for (const count of [1, 2, 4, 8, capacity.slots]) {
      const step = this.#newStep();
      for (let n = 0; n < Math.min(count, maxStepSamples(capacity.slots)); n++) {
        // Rows beyond the slots are drafts. They repeat the first row, so that all write the same to the cache.
        const row =
          n < slots
            ? step.decodeToken(this.#tokenAt(n), 0, n)
            : step.verifyTokens(this.#tokenAt(0), [], 0, 0);
        step.sample(row, n % slots, 1, greedySampling);
      }
      await this.#runNew(step);
    }
    for (const rows of otherPromptRows) {
      const count = Math.min(rows, capacity.stepTokens, room);
      const step = this.#newStep();
      step.sample(step.prefillTokens(this.#ids(0, count), 0, count, 0), 0, count, greedySampling);
      await this.#runNew(step);
    }
    const splitTokens = tiling.splits[0]?.from ?? capacity.context;
    if (splitTokens < capacity.context) {
      // The pages of the prompt repeat; the token itself has its own.
      const own = Math.floor(splitTokens / pageTokens);
      const [last, ...written] = (this.#pages.get(0) ?? []).toReversed();
      if (last === undefined || written.length === 0) return;
      const repeated = Array.from({ length: own }, (_, index) => written[index % written.length] as number);
      this.#setPages(0, [...repeated, last]);
      const step = this.#newStep();
      step.sample(step.decodeToken(this.#tokenAt(0), splitTokens, 0), 0, splitTokens + 1, greedySampling);
      await this.#runNew(step);
    }
  }

  async #encode(): Promise<number> {
    const { graph, memory } = this.#runner;
    const { embedding } = graph.shape;
    if (!embedding) return 0;
    const { capacity, maxPages } = memory;
    const longest = Math.min(capacity.context, capacity.stepTokens, maxPages * pageTokens);
    const lengthLists = [
      [Math.min(promptTokens, longest)],
      [Math.min(firstStepTokens, longest), 5],
      ...[1, 2, 4, 8, capacity.slots].map((count) => Array.from({ length: count }, () => 1)),
      ...otherPromptRows.map((rows) => [Math.min(rows, longest)]),
    ];
    let layers: Set<number> | undefined;
    const distinct = this.#distinctLayers();
    const start = performance.now();
    for (const lengths of lengthLists) {
      const step = this.#newStep();
      let page = 0;
      let rows = 0;
      for (const [slot, length] of lengths.entries()) {
        const pages = Math.ceil(length / pageTokens);
        rows += length;
        if (slot >= capacity.slots || page + pages > capacity.pages || rows > capacity.stepTokens) break;
        this.#setPages(
          slot,
          Array.from({ length: pages }, (_, index) => page + pages - 1 - index),
        );
        page += pages;
        // The second half is another segment; only models with two token types tell them apart.
        const row = step.encodeSequence(this.#ids(0, length), slot, embedding, length >> 1);
        step.sample(row, slot, length, greedySampling);
      }
      if (layers && lengths.length !== 2) {
        await this.#runNew(step);
      } else {
        layers = layers ? this.#affordableLayers(distinct, performance.now() - start, 1) : distinct;
        await this.#runStep(step, layers);
      }
      if (this.#hasFault()) break;
    }
    return layers?.size ?? 0;
  }

  /**
   * Whether the output norm, the logits and the sampling run. With a large vocabulary they take longer than the compared layers,
   * so they run only when a kernel of theirs is new, or when all layers run.
   */
  #needsHead({ dims }: StepInput, layers: ReadonlySet<number>): boolean {
    if (layers.size === this.#layers.size) return true;
    return this.#options.plan.dispatches.some(
      (dispatch) =>
        isHead(dispatch) && activeChoices(dispatch, dims).some(({ pipeline }) => !this.#ran.has(pipeline)),
    );
  }

  #newStep(): StepInput {
    const step = this.#runner.newStep();
    step.clear();
    return step;
  }

  #setPages(slot: number, pages: readonly number[]): void {
    this.#pages.set(slot, pages);
    this.#runner.setPages(slot, pages);
  }

  /** Runs the layers with kernels that have not run yet; nothing when there are none. */
  async #runNew(step: StepInput): Promise<void> {
    if (this.#hasFault()) return;
    const { dims } = step;
    const isNew = (dispatch: Dispatch) =>
      activeChoices(dispatch, dims).some(
        ({ pipeline, builtin }) => isChecked(builtin) && !this.#ran.has(pipeline),
      );
    const layers = [...this.#layers]
      .filter(([, dispatches]) => dispatches.some(isNew))
      .map(([layer]) => layer);
    const others = this.#options.plan.dispatches.filter((one) => layerOf(one) === undefined);
    if (layers.length > 0 || others.some(isNew)) await this.#runStep(step, new Set(layers));
  }

  /** Runs a step with some layers only, and compares all of its dispatches. */
  async #runStep(step: StepInput, layers: ReadonlySet<number>): Promise<void> {
    const records = new StepRecords(step, this.#pages);
    await this.#runner.writeStep(step);
    const compares: (() => void)[] = [];
    const runs: ObservedRun[] = [];
    const needsHead = this.#needsHead(step, layers);
    for (const dispatch of this.#options.plan.dispatches) {
      const layer = layerOf(dispatch);
      if (layer === undefined ? isHead(dispatch) && !needsHead : !layers.has(layer)) continue;
      const choices = activeChoices(dispatch, step.dims);
      if (choices.length === 0) continue;
      for (const { pipeline } of choices) this.#ran.add(pipeline);
      runs.push(this.#observe(dispatch, choices, records, compares));
    }
    await runObserved(this.#runner.gpu, runs, step.dims);
    for (const compare of compares) compare();
  }

  #observe(
    dispatch: Dispatch,
    choices: readonly PipelineChoice[],
    step: StepRecords,
    compares: (() => void)[],
  ): ObservedRun {
    const { bound } = dispatch;
    const [choice] = choices;
    const check = choice?.builtin && checks[choice.builtin.source];
    const before: ObservedRange[] = [];
    const after: ObservedRange[] = [];
    const run = { dispatch, before, after };
    // A step has rows of one kind, so a dispatch runs one kernel.
    if (!choice?.builtin || !check || !bound || choices.length > 1) return run;
    const { source, variant } = choice.builtin;
    const { graph, memory } = this.#runner;
    const { size, samples, family, weights } = this.#options;
    const bufferOf = (name: string) => {
      const buffer = bound.buffers[name];
      if (!buffer) throw new Error(`${dispatch.id}: nothing bound to ${name}`);
      return buffer;
    };
    const observed = new Map<string, ObservedRange>();
    const observe =
      (list: ObservedRange[], phase: string) => (name: string, first: number, words: number) => {
        const key = `${phase} ${name} ${first} ${words}`;
        let range = observed.get(key);
        if (!range) {
          range = new ObservedRange(bufferOf(name), first * 4, words * 4);
          observed.set(key, range);
          list.push(range);
        }
        return range;
      };
    const isSampled = dispatch.rows === 'samples';
    const rowCount = isSampled ? step.dims.samples : step.dims.tokens;
    // The first row of the last, partly filled tile.
    const lastTile = rowCount - (rowCount % 8 || 8);
    const pick = (count: number, more: readonly number[] = []) =>
      pickIndexes(count, [0, count - 1, ...more], size.others, this.#random);
    const site: Site = {
      variant,
      source,
      params: bound.params,
      rows: pick(rowCount, [lastTile]),
      isSampled,
      step,
      memory,
      graph,
      family,
      weights: samples,
      streamedRow(id) {
        const row = weights.streamed?.row(id);
        return row && dequantizeRows(row.type, row.bytes, { rows: 1, columns: row.columns });
      },
      param(name) {
        const value = bound.params[name];
        if (value === undefined) throw new Error(`${dispatch.id}: no parameter ${name}`);
        return value;
      },
      buffer(name) {
        const buffer = bufferOf(name);
        return 'buffer' in buffer ? buffer.buffer : buffer;
      },
      before: observe(before, 'before'),
      after: observe(after, 'after'),
      pick,
    };
    const compare = check(site);
    if (!compare) return run;
    let seen = this.#seen.get(choice.kernel);
    if (!seen) {
      const kernel = kernelName(source, variant);
      seen = { op: dispatch.op, kernel, results: new KernelResults(productPrecision(site)) };
      this.#seen.set(choice.kernel, seen);
    }
    const { results } = seen;
    const report: Report = (output, result) => results.add(`${dispatch.id} ${output}`, result);
    compares.push(() => compare(report));
    return run;
  }
}

/** True for what follows the last layer. */
const isHead = (dispatch: Dispatch): boolean =>
  layerOf(dispatch) === undefined && (dispatch.rows === 'samples' || dispatch.part === 'sampling');

const isChecked = (builtin: PipelineChoice['builtin']): boolean =>
  builtin !== undefined && checks[builtin.source] !== undefined;

/** The pipelines that a dispatch runs for a step. */
const activeChoices = (dispatch: Dispatch, dims: StepInput['dims']): PipelineChoice[] =>
  pipelineChoicesOf(dispatch, dims).filter((choice) => !choice.grid(dims).includes(0));
