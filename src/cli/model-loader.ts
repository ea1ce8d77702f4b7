import { basename } from 'node:path';
import type { Options } from '../config/options.ts';
import type { Engine, EngineOptions } from '../engine/index.ts';
import type { KernelHistory } from '../lab/types.ts';
import type { Lab } from '../lab/types.ts';
import type { LoadedModel } from '../planes/resident.ts';
import { progressBar } from './progress.ts';
import { errorMessage } from '../util/error-message.ts';
import { StartError } from './start-error.ts';
import type { CliContext } from './cli-context.ts';

const closeTimeoutMs = 1500;

interface ModelLoaderOptions {
  readonly options: Options;
  readonly dataDir: string;
  readonly cli: CliContext;
  readonly onNotice: (text: string) => void;
  /** Aborted when the host stops. */
  readonly stopping: AbortSignal;
  /** Wraps the lab of a model so that its runs are recorded in the feed. */
  readonly observeLab: (lab: Lab, model: string) => Lab;
  readonly history: KernelHistory;
  readonly observeRequests: NonNullable<EngineOptions['observeRequests']>;
  /** Draft model for speculative decoding: `location` drafts for the model at `of`. Other models load without one. */
  readonly draft?: { readonly location: string; readonly of: string } | undefined;
}

/**
 * Loads the resident model with its lab and its grammar compiler, and the embedding model beside it. One model is loaded
 * at a time.
 */
export class ModelLoader {
  readonly #options: ModelLoaderOptions;
  /** Close functions of everything that is open. */
  #closers: (() => Promise<void>)[] = [];
  #closed = false;
  #location: string | undefined;
  #draft: string | undefined;
  /** The embedding model stays open while resident models are loaded and closed. */
  #embedding: { readonly location: string; readonly engine: Engine } | undefined;

  constructor(options: ModelLoaderOptions) {
    this.#options = options;
  }

  /**
   * Whether the model at this location is loaded, is being loaded, is the draft model of the loaded one, or the embedding
   * model.
   */
  holds(location: string): boolean {
    return [this.#location, this.#draft, this.#embedding?.location].includes(location);
  }

  /** Loads the embedding model. To be called before `load`, so that the other models get the rest of the memory. */
  async loadEmbeddingModel(location: string): Promise<LoadedModel> {
    const { options, cli, onNotice } = this.#options;
    this.#refuseStopped();
    const bar = progressBar(cli.stderr, options.quiet ?? false);
    try {
      const engine = await cli.loadEngine({
        ...commonOptions(options, location, bar, onNotice),
        embedsOnly: true,
      });
      this.#embedding = { location, engine };
      if (this.#closed) await this.#closeEmbeddingModel();
      this.#refuseStopped();
      return { engine };
    } catch (error) {
      if (error instanceof StartError) throw error;
      throw new StartError(`--embedding-model: ${errorMessage(error)}`);
    } finally {
      bar.clear();
    }
  }

  /** Closes the loaded model, then loads this one. */
  async load(location: string): Promise<LoadedModel> {
    const { options, dataDir, cli, onNotice, stopping, observeLab, observeRequests, history, draft } =
      this.#options;
    await this.#closeOpen();
    this.#refuseStopped();
    this.#location = location;
    this.#draft = draft?.of === location ? draft.location : undefined;
    if (draft && !this.#draft)
      onNotice(
        `--draft applies to ${basename(draft.of)} only: ${basename(location)} runs without a draft model`,
      );
    const bar = progressBar(cli.stderr, options.quiet ?? false);
    try {
      const engine = await cli.loadEngine({
        ...engineOptions(options, location, bar, onNotice),
        observeRequests,
        ...(this.#draft === undefined ? {} : { draft: this.#draft }),
        ...(this.#embedding ? { reservedBytes: this.#embedding.engine.stats().memoryBytes } : {}),
      });
      this.#closers.push(() => engine.close(closeTimeoutMs));
      const lab = await cli.openLab({
        engine,
        dataDir,
        adapter: options.adapter,
        trustedKeys: options.trust_key ?? [],
        allowUnverified: options.allow_unverified_kernels ?? false,
        history,
        config: options.kernels,
        onNotice: onNotice,
        onWarning: (message) => cli.stderr.write(`${message}\n`),
        signal: stopping,
      });
      if (lab) this.#closers.push(() => lab.close());
      const grammars = await cli.openGrammars(engine);
      if (grammars) this.#closers.push(() => grammars.close());
      this.#refuseStopped();
      const source = lab && (() => observeLab(lab.lab, engine.model.id));
      return { engine, ...(source ? { lab: source } : {}), ...(grammars ? { grammars } : {}) };
    } catch (error) {
      await this.#closeOpen();
      throw error;
    } finally {
      bar.clear();
    }
  }

  /** Closes the loaded model and stops a load in progress. No model can be loaded afterwards. */
  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all([this.#closeOpen(), this.#closeEmbeddingModel()]);
  }

  async #closeEmbeddingModel(): Promise<void> {
    const engine = this.#embedding?.engine;
    this.#embedding = undefined;
    await engine?.close(closeTimeoutMs);
  }

  #refuseStopped(): void {
    if (this.#closed) throw new StartError('the host is shutting down');
  }

  async #closeOpen(): Promise<void> {
    await Promise.all(this.#closers.splice(0).map((close) => close()));
    this.#location = undefined;
    this.#draft = undefined;
  }
}

function engineOptions(
  options: Options,
  location: string,
  bar: ReturnType<typeof progressBar>,
  onNotice: (text: string) => void,
): EngineOptions {
  const { context, parallel, quantize, kv_cache_bytes: kvCacheBytes } = options;
  return {
    ...commonOptions(options, location, bar, onNotice),
    ...(context === undefined ? {} : { context }),
    ...(quantize === undefined ? {} : { quantize }),
    ...(parallel === undefined ? {} : { parallel }),
    ...(kvCacheBytes === undefined ? {} : { kvCacheBytes }),
    ...(options.no_speculation ? { speculation: 'off' } : {}),
  };
}

/** Options that apply to every model of the host. */
function commonOptions(
  options: Options,
  location: string,
  bar: ReturnType<typeof progressBar>,
  onNotice: (text: string) => void,
): EngineOptions {
  const { adapter, queue } = options;
  return {
    model: location,
    ...(adapter === undefined ? {} : { adapter }),
    ...(options.dawn_features === undefined ? {} : { dawnFeatures: options.dawn_features }),
    ...(queue === undefined ? {} : { queue }),
    ...(options.client_weight === undefined ? {} : { clientWeights: options.client_weight }),
    ...(options.exact ? { exact: true } : {}),
    ...(options.retune ? { retune: true } : {}),
    ...(options.verify === undefined ? {} : { verify: options.verify }),
    onProgress: ({ stage, done, total }) => bar.show(`loading: ${stage}`, done, total),
    onNotice: (message) => {
      bar.clear();
      onNotice(message);
    },
  };
}
