import type { DawnFeature } from './gpu/dawn-features.ts';
import type { Binding, LabKernel } from './graph/bindings.ts';
import { openRunner, type EngineSource } from './loading/open-runner.ts';
import { ResidentDevice } from './resident-device.ts';
import { ModelFileError } from './formats/model-file.ts';
import { openModelFile } from './formats/open-model-file.ts';
import { quantizeModelFile } from './formats/quantize-model-file.ts';
import { pageTokens } from '../../kernels/rope-kv-write.ts';
import { normalizeEmbedding, validateEmbedRequest } from './embedding-request.ts';
import { createPairEncoder, type PairEncoder } from './ranking/pair-encoder.ts';
import { scorePair, validateRankRequest } from './ranking/rank-request.ts';
import { validateGenerateRequest } from './generate-request.ts';
import type { Graph } from './graph/graph.ts';
import { type BadTensor, digestOf } from './loading/digest.ts';
import { type DraftSource, openDraft } from './speculation/draft-source.ts';
import { hashWhileReading } from './loading/hash-while-reading.ts';
import type { Memory } from './memory/memory.ts';
import { describeModel, modelId } from './loading/model-info.ts';
import { buildGraph } from './models/registry.ts';
import type { Platform } from './platform.ts';
import type { Runner, StepPlans } from './execution/runner.ts';
import type { Scheduler } from './scheduling/scheduler.ts';
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
  type Ranking,
  type RankRequest,
  type ReplacedKernel,
  type RequestObserver,
} from './types.ts';

const defaultQueueLimit = 64;
const maxEagerHashBytes = 64 << 20;
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
    if (options.embedsOnly && (!graph.shape.embedding || graph.rankHead)) {
      const purpose = graph.rankHead ? 'ranks documents' : 'generates text';
      throw new EngineError(
        'invalid_request',
        `${file.name} ${purpose}; name a model that only makes embeddings: one whose file names a pooling`,
      );
    }
    const tokenizer = createTokenizer(file.metadata);
    const chatTemplate = createChatTemplate(file.metadata, tokenizer);
    draft = await openDraft(platform, options, { file, graph, tokenizer });
    const pairEncoder = graph.rankHead && createPairEncoder(file.name, tokenizer, graph.rankHead.pairs);
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
    engine = new ResidentEngine(source, { runner, tokenizer, chatTemplate, pairEncoder, digest });
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
 * The engine used by the HTTP planes.
 */
export class ResidentEngine implements Engine {
  readonly model: ModelInfo;
  /** `sha256:<hex>` over the model's content; `model.digest` is `pending` until it is known. */
  readonly digest: Promise<string>;
  readonly tokenizer: Tokenizer;
  readonly chatTemplate: ChatTemplate | undefined;
  readonly pairEncoder: PairEncoder | undefined;
  readonly #source: EngineSource;
  readonly #queueLimit: number;
  readonly #device: ResidentDevice;
  readonly #observer: RequestObserver | undefined;
  readonly #counts = {
    completions: 0,
    embeddings: 0,
    rankedDocuments: 0,
    promptTokens: 0,
    completionTokens: 0,
    cachedTokens: 0,
  };

  constructor(
    source: EngineSource,
    parts: {
      runner: Runner;
      tokenizer: Tokenizer;
      chatTemplate: ChatTemplate | undefined;
      pairEncoder: PairEncoder | undefined;
      digest: Promise<string>;
    },
  ) {
    const { runner, tokenizer, chatTemplate, pairEncoder, digest } = parts;
    this.#source = source;
    this.tokenizer = tokenizer;
    this.chatTemplate = chatTemplate;
    this.pairEncoder = pairEncoder;
    this.#queueLimit = source.options.queue ?? defaultQueueLimit;
    this.model = {
      ...describeModel(source.file, source.graph, runner.memory.capacity.context),
      digest: 'pending',
    };
    this.digest = digest;
    this.#observer = source.options.observeRequests?.(this.model);
    this.#device = new ResidentDevice(source, runner, tokenizer);
  }

  /** Features of Dawn that are enabled in addition to the default ones. */
  get dawnFeatures(): readonly DawnFeature[] {
    return this.#source.options.dawnFeatures ?? [];
  }

  get closed(): boolean {
    return this.#device.closed;
  }

  get unavailable(): EngineError | undefined {
    return this.#device.unavailable;
  }

  get adapter(): AdapterFacts {
    return this.#device.runner.gpu.facts;
  }

  get replacedKernels(): readonly ReplacedKernel[] {
    const { runner } = this.#device;
    const replaced = [...runner.replacedKernels, ...(runner.draftRunner?.replacedKernels ?? [])];
    return [...new Map(replaced.map((one) => [one.kernel, one] as const)).values()];
  }

  /**
   * For benchmarks and the lab: device, plan and memory of the current device. A caller that writes to pages of the
   * KV cache must call `forgetPrefixes` before the next request.
   */
  get runner(): Runner {
    return this.#device.runner;
  }

  get graph(): Graph {
    return this.#source.graph;
  }

  /** Called when the device was lost while lab kernels were bound; the built-in kernels have taken over. */
  set onBindingsLost(listener: ((reason: string) => void) | undefined) {
    this.#device.onBindingsLost = listener;
  }

  /** See `ResidentDevice.exclusive`. */
  exclusive<T>(
    work: (runner: Runner, letOthersRun: () => Promise<boolean>) => Promise<T>,
    signal?: AbortSignal,
  ): Promise<T> {
    return this.#device.exclusive(work, signal);
  }

  /** See `ResidentDevice.tryBindings`. */
  tryBindings<T>(
    bindings: readonly Binding[],
    unfused: ReadonlyMap<string, LabKernel>,
    work: (plans: StepPlans) => Promise<T>,
  ): Promise<T> {
    return this.#device.tryBindings(bindings, unfused, work);
  }

  /** See `ResidentDevice.bind`. */
  bind(bindings: readonly Binding[], unfused: ReadonlyMap<string, LabKernel>): Promise<void> {
    return this.#device.bind(bindings, unfused);
  }

  /** Discards all cached prefixes, so later prompts are computed from their start. Used to measure cold prompts. */
  forgetPrefixes(): void {
    this.#device.scheduler.forgetPrefixes();
  }

  generate(request: GenerateRequest): AsyncGenerator<GenerationEvent, void, undefined> {
    this.#validateRequest(request);
    request.signal?.throwIfAborted();
    const scheduler = this.#device.scheduler;
    const sequence = new Sequence(request, this.tokenizer, performance.now(), this.#observer);
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
          this.#device.reportAnswer();
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
    this.#device.requireReady();
    const dimensions = validateEmbedRequest(request, this.model);
    this.requireQueueSpace();
    const { inputs, signal } = request;
    signal?.throwIfAborted();
    const rows = await this.#device.embed(inputs, signal);
    const embeddings = rows.map((row) => normalizeEmbedding(row, dimensions));
    const promptTokens = inputs.reduce((sum, { length }) => sum + length, 0);
    this.#device.reportAnswer();
    this.#counts.embeddings += inputs.length;
    this.#counts.promptTokens += promptTokens;
    return { embeddings, promptTokens };
  }

  async rank({ pairs, signal }: RankRequest): Promise<Ranking> {
    this.#device.requireReady();
    validateRankRequest(pairs, this.model);
    const { rankHead } = this.#source.graph;
    if (!rankHead)
      throw new EngineError('invalid_request', `the model '${this.model.id}' ranks no documents`);
    this.requireQueueSpace();
    signal?.throwIfAborted();
    const rows = await this.#device.embed(pairs, signal);
    const scores = rows.map((row) => scorePair(row, rankHead));
    const promptTokens = pairs.reduce((sum, { length }) => sum + length, 0);
    this.#device.reportAnswer();
    this.#counts.rankedDocuments += pairs.length;
    this.#counts.promptTokens += promptTokens;
    return { scores, promptTokens };
  }

  requireQueueSpace(): void {
    if (this.#isQueueFull) {
      const { running, waiting } = this.#device.load;
      throw new EngineError(
        'queue_full',
        `${running} requests are running and ${waiting} waiting; try again later`,
      );
    }
  }

  stats(): EngineStats {
    const { pages } = this.#device.scheduler;
    const { running, waiting } = this.#device.load;
    const { preemptions, drafted, accepted, byModel } = this.#device.counts;
    const { draft } = this.#source;
    return {
      slots: this.#device.runner.memory.capacity.slots,
      running,
      queued: waiting,
      ...this.#counts,
      deviceLosses: this.#device.losses,
      pages,
      pageTokens,
      stalledReaders: this.#device.scheduler.stalledReaders,
      preemptions,
      memoryBytes: this.#device.runner.memoryBytes,
      speculation: {
        drafted,
        accepted,
        ...(draft ? { draft: { model: modelId(draft.file), ...byModel } } : {}),
      },
    };
  }

  async close(graceMs = 2000): Promise<void> {
    if (this.closed) return;
    const timeout = new Promise<'late'>((resolve) => setTimeout(() => resolve('late'), graceMs));
    await this.#device.close(timeout);
    const closed = Promise.all([this.#source.file.close(), this.#source.draft?.file.close()]);
    closed.catch(() => undefined); // awaited below, or too late to matter
    // A read that hangs would block closing the file for ever.
    await Promise.race([closed, timeout]);
  }

  #validateRequest(request: GenerateRequest): void {
    this.#device.requireReady();
    const { contextLength, kind, id } = this.model;
    if (kind !== 'generate') {
      const purpose = kind === 'embed' ? 'makes embeddings' : 'ranks documents';
      throw new EngineError('invalid_request', `the model '${id}' ${purpose} and generates no text`);
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
    const { client = '' } = request;
    if (this.#isQueueFull && this.#device.scheduler.yieldPlace(client)) return;
    this.requireQueueSpace();
  }

  get #isQueueFull(): boolean {
    const { running, waiting } = this.#device.load;
    return running + waiting >= this.#device.runner.memory.capacity.slots + this.#queueLimit;
  }
}
