import { errorMessage } from '../util/error-message.ts';
import { sleep } from '../util/sleep.ts';
import type { Binding, LabKernel } from './graph/bindings.ts';
import { openRunner, type EngineSource } from './loading/open-runner.ts';
import { ModelFileError } from './formats/model-file.ts';
import { openModelFile } from './formats/open-model-file.ts';
import { quantizeModelFile } from './formats/quantize-model-file.ts';
import { Embedder } from './scheduling/embedder.ts';
import { normalizeEmbedding, validateEmbedRequest } from './embedding-request.ts';
import { validateGenerateRequest } from './generate-request.ts';
import type { Graph } from './graph/graph.ts';
import { type BadTensor, digestOf } from './loading/digest.ts';
import { type DraftSource, openDraft } from './speculation/draft-source.ts';
import { hashWhileReading } from './loading/hash-while-reading.ts';
import type { Memory } from './memory/memory.ts';
import { describeModel, modelId } from './loading/model-info.ts';
import { buildGraph } from './models/registry.ts';
import type { Platform } from './platform.ts';
import type { StepPlans, Runner } from './execution/runner.ts';
import { zeroCounts, type SchedulerCounts } from './scheduling/scheduler-counts.ts';
import { Scheduler } from './scheduling/scheduler.ts';
import { Sequence } from './scheduling/sequence.ts';
import { streamedTableName } from './execution/streamed-rows.ts';
import { createChatTemplate, createTokenizer } from './tokenizer/index.ts';
import type { ChatTemplate, Tokenizer } from './tokenizer/types.ts';
import {
  EngineError,
  type AdapterFacts,
  type Embeddings,
  type EmbedRequest,
  type Engine,
  type EngineOptions,
  type EngineStats,
  type GenerateRequest,
  type GenerationEvent,
  type ModelInfo,
} from './types.ts';

const defaultQueueLimit = 64;
const maxEagerHashBytes = 64 << 20;
/**
 * A step with lab kernels that takes longer counts as hung: far more than any step the scheduler forms. Software
 * adapters get additional time for each byte of weights, because slow ones need it.
 */
const hangTimeoutMs = 20_000;
const hangTimeoutMsPerByte = 20 / 1e6;
/** Longest time that compiling the kernels of a binding may block the queue. */
const compileTimeoutMs = 120_000;
const watchdogIntervalMs = 500;
/** Time within which a device loss is reported after a step failed because of it. */
const lossReportDelayMs = 200;

/**
 * Loads a model and prepares it for requests.
 * @throws ModelFileError for an unusable file; EngineError `no_adapter`, `model_too_large`
 */
export async function loadEngine(platform: Platform, options: EngineOptions): Promise<ResidentEngine> {
  options.onProgress?.({ stage: 'open', done: 0, total: 1 });
  const files = await platform.modelFiles(options.model);
  const opened = await openModelFile(files);
  const { file: original, hashes } = files.remote
    ? hashWhileReading(platform, opened)
    : { file: opened, hashes: undefined };
  let engine: ResidentEngine;
  let draft: DraftSource | undefined;
  let badTensor: BadTensor | undefined;
  try {
    const file = options.quantize === undefined ? original : quantizeModelFile(original, options.quantize);
    for (const note of files.notes ?? []) options.onNotice?.(note);
    for (const note of file.notes ?? []) options.onNotice?.(`${file.name}: ${note}`);
    const graph = await buildGraph(file);
    const tokenizer = createTokenizer(file.metadata);
    const chatTemplate = createChatTemplate(file.metadata, tokenizer);
    draft = await openDraft(platform, options, { file, graph, tokenizer });
    const source = { platform, options, file, graph, draft };
    const runner = await openRunner(source);
    if (draft && runner.draftRunner)
      options.onNotice?.(draftNotice(draft, runner.memory, runner.draftRunner.memory));
    // Weights are checked while they are loaded; a table that stays in the file is checked while it is read for the
    // digest.
    const table = streamedTableName(graph);
    const valueCheck = {
      tensors: table === undefined ? [] : [table],
      onBadTensor: (one: BadTensor) => (badTensor = one),
    };
    const digest = digestOf(platform, opened, options.quantize, hashes, valueCheck);
    engine = new ResidentEngine(source, { runner, tokenizer, chatTemplate, digest });
  } catch (error) {
    await Promise.all([opened.close(), draft?.file.close()]);
    throw error;
  }
  const hashed = engine.digest.then((value) => void (engine.model.digest = value));
  // A small file is hashed before the engine is ready, a large one while the first requests run.
  if (opened.sizeBytes <= maxEagerHashBytes) {
    try {
      await hashed;
      if (badTensor) throw new ModelFileError('corrupt', damagedTableMessage(opened.name, badTensor));
    } catch (error) {
      await engine.close();
      throw error;
    }
  } else {
    hashed.then(
      () => badTensor && options.onNotice?.(damagedTableMessage(opened.name, badTensor)),
      (error: unknown) => {
        if (!engine.closed) options.onNotice?.(`the model file could not be hashed: ${String(error)}`);
      },
    );
  }
  return engine;
}

const damagedTableMessage = (file: string, { name, row }: BadTensor): string =>
  `${file}: tensor '${name}' holds a value that is infinite or NaN (row ${row}), so texts with that token fail; ` +
  'the file is damaged; download it again';

function draftNotice({ file }: DraftSource, target: Memory, draftMemory: Memory): string {
  const { context } = draftMemory.capacity;
  const limit = context < target.capacity.context ? `, within its context of ${context} tokens` : '';
  return `${modelId(file)} drafts tokens (speculative decoding)${limit}`;
}

/**
 * The engine used by the HTTP planes. Owns the runner of the current device and replaces it when the device is lost.
 */
export class ResidentEngine implements Engine {
  readonly model: ModelInfo;
  /** `sha256:<hex>` over the model's content; `model.digest` is `pending` until it is known. */
  readonly digest: Promise<string>;
  readonly tokenizer: Tokenizer;
  readonly chatTemplate: ChatTemplate | undefined;
  readonly #source: EngineSource;
  readonly #queueLimit: number;
  #runner: Runner;
  #scheduler: Scheduler;
  /** Set for embedding models. Its steps run as exclusive tasks of the scheduler, which has nothing else to run. */
  #embedder: Embedder | undefined;
  #state: 'ready' | 'rebuilding' | 'lost' | 'closed' = 'ready';
  /** A request was answered since the device was opened, so opening another device after a loss is worthwhile. */
  #hasAnswered = true;
  readonly #counts = {
    completions: 0,
    embeddings: 0,
    promptTokens: 0,
    completionTokens: 0,
    cachedTokens: 0,
    deviceLosses: 0,
  };
  readonly #schedulerCounts: SchedulerCounts = zeroCounts();
  /** Rejects the promises that wait for a device that hangs. */
  readonly #hangRejecters = new Set<(reason: unknown) => void>();
  #watchdog: ReturnType<typeof setInterval> | undefined;
  /** True while the work of `exclusive` runs. */
  #exclusive = false;
  /** Number of bindings that are being planned and compiled. */
  #planningCount = 0;
  /** Plans that exclusive work may still use. */
  readonly #retiredPlans: StepPlans[] = [];
  /** Plans that are no longer bound but that submitted steps still use. */
  #outgoingPlans: StepPlans | undefined;
  /** Called when the device was lost while lab kernels were bound; the built-in kernels have taken over. */
  onBindingsLost: ((reason: string) => void) | undefined;

  constructor(
    source: EngineSource,
    parts: {
      runner: Runner;
      tokenizer: Tokenizer;
      chatTemplate: ChatTemplate | undefined;
      digest: Promise<string>;
    },
  ) {
    const { runner, tokenizer, chatTemplate, digest } = parts;
    this.#source = source;
    this.#runner = runner;
    this.tokenizer = tokenizer;
    this.chatTemplate = chatTemplate;
    this.#queueLimit = source.options.queue ?? defaultQueueLimit;
    this.model = {
      ...describeModel(source.file, source.graph, runner.memory.capacity.context),
      digest: 'pending',
    };
    this.digest = digest;
    this.#scheduler = this.#createScheduler(runner);
    this.#embedder = this.#createEmbedder(runner, this.#scheduler);
    this.#watchForLoss(runner);
  }

  get closed(): boolean {
    return this.#state === 'closed';
  }

  get adapter(): AdapterFacts {
    return this.#runner.gpu.facts;
  }

  /**
   * For benchmarks and the lab: device, plan and memory of the current device. A caller that writes to pages of the
   * KV cache must call `forgetPrefixes` before the next request.
   */
  get runner(): Runner {
    return this.#runner;
  }

  get graph(): Graph {
    return this.#source.graph;
  }

  /**
   * Waits until no request runs or waits, and runs `work` with exclusive use of the device; new requests wait
   * meanwhile. Rejects with the signal's reason when it aborts before `work` starts, and when the device is lost.
   */
  async exclusive<T>(work: (runner: Runner) => Promise<T>, signal?: AbortSignal): Promise<T> {
    this.#requireReady();
    const runner = this.#runner;
    const scheduler = this.#scheduler;
    return await scheduler.runExclusive(async () => {
      this.#exclusive = true;
      try {
        return await this.#raceDeviceLoss(runner, work(runner));
      } finally {
        this.#exclusive = false;
        for (const plans of this.#retiredPlans.splice(0)) plans.destroy();
        // The work may have written to any page.
        scheduler.forgetPrefixes();
      }
    }, signal);
  }

  /**
   * Binds lab kernels, from the next step on; nodes without a binding run on the built-in kernels. If any kernel
   * cannot be compiled or bound, nothing changes. Running requests continue.
   * @param unfused kernels for `add`, `rope` and `kv_write`, which exist as built-ins only in fused form
   */
  async bind(bindings: readonly Binding[], unfused: ReadonlyMap<string, LabKernel>): Promise<void> {
    this.#requireReady();
    const runner = this.#runner;
    const plans = bindings.length > 0 ? await this.#planBindings(runner, bindings, unfused) : undefined;
    if (runner !== this.#runner) {
      throw new EngineError('device_lost', 'the GPU was lost while the kernels were being bound');
    }
    const previous = runner.boundPlans;
    runner.boundPlans = plans;
    this.#watchForHangs();
    if (!previous) return;
    // Until those steps end, a kernel of the previous plans can still hang.
    this.#outgoingPlans = previous;
    try {
      await this.#raceDeviceLoss(runner, runner.gpu.device.queue.onSubmittedWorkDone());
    } finally {
      this.#outgoingPlans = undefined;
      // A running benchmark or parity run keeps using the plans it started with.
      if (this.#exclusive) this.#retiredPlans.push(previous);
      else previous.destroy();
    }
  }

  /** Resolves with the result of `work`; rejects when the device is lost or hangs first. */
  async #raceDeviceLoss<T>(runner: Runner, work: Promise<T>): Promise<T> {
    const lost = runner.gpu.lost.then((reason): never => {
      throw new EngineError('device_lost', `the GPU was lost (${reason})`);
    });
    const { promise: hung, reject } = Promise.withResolvers<never>();
    this.#hangRejecters.add(reject);
    try {
      return await Promise.race([work, lost, hung]);
    } finally {
      this.#hangRejecters.delete(reject);
    }
  }

  async #planBindings(
    runner: Runner,
    bindings: readonly Binding[],
    unfused: ReadonlyMap<string, LabKernel>,
  ): ReturnType<Runner['planBindings']> {
    this.#planningCount += 1;
    // Compiling can hang, too.
    this.#watchForHangs();
    try {
      return await this.#raceDeviceLoss(runner, runner.planBindings(bindings, unfused));
    } finally {
      this.#planningCount -= 1;
    }
  }

  #watchForHangs(): void {
    clearInterval(this.#watchdog);
    this.#watchdog = setInterval(() => this.#checkForHang(), watchdogIntervalMs);
  }

  /** Detects a kernel that does not end. WebGPU does not report one, and its device cannot be destroyed. */
  #checkForHang(): void {
    const runner = this.#runner;
    const { gpu, weightBytes: bytes, oldestSubmit: step, compilingSince: compiling } = runner;
    const isIdle =
      !runner.boundPlans &&
      !this.#outgoingPlans &&
      this.#retiredPlans.length === 0 &&
      this.#planningCount === 0;
    if (isIdle) clearInterval(this.#watchdog);
    // The queue works on whatever was submitted first.
    const isStep = step !== undefined && (compiling === undefined || step < compiling);
    const since = isStep ? step : compiling;
    const allowed =
      hangTimeoutMs +
      (gpu.caps.software ? bytes * hangTimeoutMsPerByte : 0) +
      (isStep ? 0 : compileTimeoutMs);
    if (since === undefined || performance.now() - since < allowed) return;
    const what = isStep ? 'a step' : 'compiling the kernels of a binding';
    const reason = `${what} did not end within ${Math.round(allowed / 1000)} s`;
    for (const reject of this.#hangRejecters)
      reject(new EngineError('device_lost', `the GPU hangs: ${reason}`));
    void this.#replaceDevice(runner, reason, 'hangs');
  }

  /** Discards all cached prefixes, so later prompts are computed from their start. Used to measure cold prompts. */
  forgetPrefixes(): void {
    this.#scheduler.forgetPrefixes();
  }

  generate(request: GenerateRequest): AsyncGenerator<GenerationEvent, void, undefined> {
    this.#validateRequest(request);
    request.signal?.throwIfAborted();
    const scheduler = this.#scheduler;
    const sequence = new Sequence(request, this.tokenizer, performance.now());
    const abort = () => scheduler.cancel(sequence, request.signal?.reason);
    request.signal?.addEventListener('abort', abort, { once: true });
    scheduler.add(sequence);
    return this.#events(sequence, scheduler, () => request.signal?.removeEventListener('abort', abort));
  }

  async *#events(
    sequence: Sequence,
    scheduler: Scheduler,
    cleanUp: () => void,
  ): AsyncGenerator<GenerationEvent, void, undefined> {
    try {
      for await (const event of sequence.events()) {
        if (event.type === 'end') {
          this.#hasAnswered = true;
          this.#counts.completions += 1;
          this.#counts.promptTokens += event.usage.prompt_tokens;
          this.#counts.completionTokens += event.usage.completion_tokens;
          this.#counts.cachedTokens += event.usage.cached_tokens;
        }
        yield event;
      }
    } finally {
      cleanUp();
      // The consumer stopped reading before the end.
      if (sequence.phase !== 'done') scheduler.cancel(sequence, new Error('the consumer stopped reading'));
    }
  }

  async embed(request: EmbedRequest): Promise<Embeddings> {
    this.#requireReady();
    const dimensions = validateEmbedRequest(request, this.model);
    this.#requireQueueSpace();
    const { inputs, signal } = request;
    signal?.throwIfAborted();
    const rows = (await this.#embedder?.embed(inputs, signal)) ?? [];
    const embeddings = rows.map((row) => normalizeEmbedding(row, dimensions));
    const promptTokens = inputs.reduce((sum, { length }) => sum + length, 0);
    this.#hasAnswered = true;
    this.#counts.embeddings += inputs.length;
    this.#counts.promptTokens += promptTokens;
    return { embeddings, promptTokens };
  }

  stats(): EngineStats {
    const { pages } = this.#scheduler;
    const { running, waiting } = this.#embedder ?? this.#scheduler;
    const { preemptions, drafted, accepted, byModel } = this.#schedulerCounts;
    const { draft } = this.#source;
    return {
      slots: this.#runner.memory.capacity.slots,
      running,
      queued: waiting,
      ...this.#counts,
      pages,
      stalledReaders: this.#scheduler.stalledReaders,
      preemptions,
      speculation: {
        drafted,
        accepted,
        ...(draft ? { draft: { model: modelId(draft.file), ...byModel } } : {}),
      },
    };
  }

  async close(graceMs = 2000): Promise<void> {
    if (this.#state === 'closed') return;
    this.#state = 'closed';
    clearInterval(this.#watchdog);
    this.#failAll(new EngineError('shutting_down', 'the host is shutting down'));
    const timeout = new Promise<'late'>((resolve) => setTimeout(() => resolve('late'), graceMs));
    const settled = await Promise.race([this.#scheduler.whenIdle(), timeout]);
    // Destroying a device that still computes blocks the thread until it is done, possibly for ever.
    if (settled !== 'late') this.#runner.destroy();
    const closed = Promise.all([this.#source.file.close(), this.#source.draft?.file.close()]);
    closed.catch(() => undefined); // awaited below, or too late to matter
    // A read that hangs would block closing the file for ever.
    await Promise.race([closed, timeout]);
  }

  /** Fails every running and waiting request on the current device. */
  #failAll(reason: EngineError): void {
    this.#scheduler.stop(reason);
    this.#embedder?.stop(reason);
  }

  #createEmbedder(runner: Runner, scheduler: Scheduler): Embedder | undefined {
    if (!runner.graph.shape.embedding) return undefined;
    return new Embedder(runner, {
      withDevice: (work) => scheduler.runExclusive(work),
      onFailure: (reason) => void this.#replaceAfterFailure(runner, reason),
    });
  }

  #createScheduler(runner: Runner): Scheduler {
    const { speculation = 'auto', unreadTokens, readerTimeoutMs: timeoutMs } = this.#source.options;
    return new Scheduler(runner, () => performance.now(), {
      speculation,
      draft: runner.draftRunner,
      reader: {
        ...(unreadTokens === undefined ? {} : { unreadTokens }),
        ...(timeoutMs === undefined ? {} : { timeoutMs }),
      },
      counts: this.#schedulerCounts,
      onFailure: (reason) => void this.#replaceAfterFailure(runner, reason),
    });
  }

  #requireReady(): void {
    if (this.#state === 'closed') throw new EngineError('shutting_down', 'the host is shutting down');
    if (this.#state === 'rebuilding') {
      throw new EngineError(
        'device_lost',
        'the GPU was lost and the model is being loaded again; try again shortly',
      );
    }
    if (this.#state === 'lost') {
      throw new EngineError(
        'device_lost',
        'the GPU was lost and could not be opened again; restart the host',
      );
    }
  }

  #validateRequest(request: GenerateRequest): void {
    this.#requireReady();
    const { contextLength, kind, id } = this.model;
    if (kind === 'embed') {
      throw new EngineError('invalid_request', `the model '${id}' makes embeddings and generates no text`);
    }
    const { length } = request.prompt;
    if (length === 0) throw new EngineError('invalid_request', 'the prompt is empty');
    validateGenerateRequest(request);
    if (length + request.maxTokens > contextLength) {
      throw new EngineError(
        'context_length_exceeded',
        `the context holds ${contextLength} tokens, the request needs ${length + request.maxTokens} ` +
          `(${length} in the prompt, ${request.maxTokens} for the output)`,
      );
    }
    this.#requireQueueSpace();
  }

  #requireQueueSpace(): void {
    const { running, waiting } = this.#embedder ?? this.#scheduler;
    if (running + waiting >= this.#runner.memory.capacity.slots + this.#queueLimit) {
      throw new EngineError(
        'queue_full',
        `${running} requests are running and ${waiting} waiting; try again later`,
      );
    }
  }

  #watchForLoss(runner: Runner): void {
    void runner.gpu.lost.then((reason) => this.#replaceDevice(runner, reason));
  }

  /**
   * Handles a failed step. If the cause is a lost device, the loss has a more precise reason and is reported shortly
   * after.
   */
  async #replaceAfterFailure(runner: Runner, reason: string): Promise<void> {
    await sleep(lossReportDelayMs);
    if (this.#state !== 'ready' || runner !== this.#runner) return;
    await this.#replaceDevice(runner, `a step failed: ${reason}`, 'failed');
  }

  /** The device of `lostRunner` is gone: fails its requests and loads the model once onto a new device. */
  async #replaceDevice(
    lostRunner: Runner,
    reason: string,
    cause: 'lost' | 'hangs' | 'failed' = 'lost',
  ): Promise<void> {
    if (this.#isClosed() || this.#state === 'rebuilding' || lostRunner !== this.#runner) return;
    const notice = this.#source.options.onNotice ?? (() => {});
    this.#counts.deviceLosses += 1;
    this.#state = 'rebuilding';
    clearInterval(this.#watchdog);
    if (lostRunner.boundPlans || this.#outgoingPlans) {
      // The built-in kernels are not to blame.
      this.#hasAnswered = true;
      try {
        this.onBindingsLost?.(reason);
      } catch (error) {
        notice(`the lab failed to handle the loss of its kernels: ${String(error)}`);
      }
    }
    this.#failAll(new EngineError('device_lost', `the GPU was lost during the request (${reason})`));
    if (!this.#hasAnswered) {
      this.#state = 'lost';
      notice(`the GPU was lost again before any request succeeded (${reason}); giving up`);
      return;
    }
    notice(`the GPU was lost (${reason}); loading the model again`);
    try {
      // A device that still works frees its memory for the next one; a device that hangs cannot be destroyed.
      if (cause === 'failed') lostRunner.destroy();
      // The context length that was announced must still hold, so it is fixed for the new device.
      const options = { ...this.#source.options, context: this.model.contextLength };
      const next = await openRunner({ ...this.#source, options }, cause === 'hangs');
      if (this.#isClosed()) {
        next.destroy();
        return;
      }
      this.#hasAnswered = false;
      this.#runner = next;
      this.#scheduler = this.#createScheduler(next);
      this.#embedder = this.#createEmbedder(next, this.#scheduler);
      this.#state = 'ready';
      this.#watchForLoss(next);
      const hasHungCores = cause === 'hangs' && next.gpu.caps.software;
      notice(
        `the model is loaded again${hasHungCores ? '; restart the host to free the cores that still hang' : ''}`,
      );
    } catch (error) {
      this.#state = 'lost';
      notice(`the GPU could not be opened again: ${errorMessage(error)}`);
    }
  }

  /** A method, so that the compiler assumes the state may change during any await. */
  #isClosed(): boolean {
    return this.#state === 'closed';
  }
}
