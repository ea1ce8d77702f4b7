import { basename } from 'node:path';
import type { Options } from '../config/options.ts';
import type { Engine, EngineOptions } from '../engine/index.ts';
import type { KernelHistory } from '../lab/types.ts';
import type { Lab } from '../lab/types.ts';
import type { LoadParams } from '../planes/model-pool.ts';
import type { ModelRole } from '../planes/model-store.ts';
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

/** A model that is loaded or being loaded. */
interface OpenModel {
  readonly location: string;
  readonly role: Exclude<ModelRole, 'draft'>;
  /** Location of its draft model. */
  readonly draft?: string | undefined;
  /** Close functions of what is open, in the order of opening. */
  readonly closers: (() => Promise<void>)[];
  engine?: Engine;
  /** Settled when what was open at the last close is closed. */
  closing?: Promise<void>;
}

/**
 * Loads models with their grammar compilers, and the resident one with its lab. One model is loaded at a time, and gets
 * the memory that the others leave.
 */
export class ModelLoader {
  readonly #options: ModelLoaderOptions;
  readonly #open = new Set<OpenModel>();
  #closed = false;

  constructor(options: ModelLoaderOptions) {
    this.#options = options;
  }

  /** The role of the model at this location; undefined where it is neither loaded nor being loaded. */
  roleOf(location: string): ModelRole | undefined {
    const open = [...this.#open];
    const role = open.find((model) => model.location === location)?.role;
    return role ?? (open.some(({ draft }) => draft === location) ? 'draft' : undefined);
  }

  /** Loads the embedding model. To be called before `load`, so that the other models get the rest of the memory. */
  async loadEmbeddingModel(location: string): Promise<LoadedModel> {
    try {
      return await this.#openModel({ location, role: 'embedding', closers: [] }, (model, common) =>
        this.#openEngine(model, { ...common, embedsOnly: true }),
      );
    } catch (error) {
      if (error instanceof StartError) throw error;
      throw new StartError(`--embedding-model: ${errorMessage(error)}`);
    }
  }

  /** Loads a model: the resident one with a lab, a further one without. */
  async load(location: string, { isMain, keepsContext, openPlaces }: LoadParams): Promise<LoadedModel> {
    const { options, onNotice, observeLab, observeRequests, draft: configured } = this.#options;
    const draft = configured?.of === location ? configured.location : undefined;
    if (configured && draft === undefined)
      onNotice(
        `--draft applies to ${basename(configured.of)} only: ${basename(location)} runs without a draft model`,
      );
    const role = isMain ? 'main' : 'further';
    return await this.#openModel({ location, role, draft, closers: [] }, async (model, common) => {
      const { engine } = await this.#openEngine(model, {
        ...common,
        ...engineOptions(options),
        observeRequests,
        keepsContext,
        cacheShare: 1 / Math.max(1, openPlaces),
        ...(draft === undefined ? {} : { draft }),
      });
      const lab = isMain ? await this.#openLab(engine) : undefined;
      if (lab) model.closers.push(() => lab.close());
      const grammars = await this.#options.cli.openGrammars(engine);
      if (grammars) model.closers.push(() => grammars.close());
      const source = lab && (() => observeLab(lab.lab, engine.model.id));
      return { engine, ...(source ? { lab: source } : {}), ...(grammars ? { grammars } : {}) };
    });
  }

  /** Closes all models and stops a load in progress. No model can be loaded afterwards. */
  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all([...this.#open].map((model) => this.#close(model)));
  }

  async #openModel(
    model: OpenModel,
    open: (model: OpenModel, common: EngineOptions) => Promise<LoadedModel>,
  ): Promise<LoadedModel> {
    const { options, cli, onNotice } = this.#options;
    this.#refuseStopped();
    const bar = progressBar(cli.stderr, options.quiet ?? false);
    const common = { ...commonOptions(options, model.location, bar, onNotice), ...this.#memoryLimits() };
    this.#open.add(model);
    try {
      const loaded = await open(model, common);
      this.#refuseStopped();
      return { ...loaded, close: () => this.#close(model) };
    } catch (error) {
      await this.#close(model);
      throw error;
    } finally {
      bar.clear();
    }
  }

  async #openEngine(model: OpenModel, options: EngineOptions): Promise<{ engine: Engine }> {
    const engine = await this.#options.cli.loadEngine(options);
    model.engine = engine;
    model.closers.push(() => engine.close(closeTimeoutMs));
    return { engine };
  }

  async #openLab(engine: Engine) {
    const { options, dataDir, cli, onNotice, stopping, history } = this.#options;
    return await cli.openLab({
      engine,
      dataDir,
      adapter: options.adapter,
      trustedKeys: options.trust_key ?? [],
      allowUnverified: options.allow_unverified_kernels ?? false,
      history,
      config: options.kernels,
      onNotice,
      onWarning: (message) => cli.stderr.write(`${message}\n`),
      signal: stopping,
    });
  }

  /** What the loaded models leave of the memory. */
  #memoryLimits(): Pick<EngineOptions, 'reservedBytes' | 'memoryBytes'> {
    const { resident_bytes: limit } = this.#options.options;
    const reservedBytes = [...this.#open].reduce(
      (sum, { engine }) => sum + (engine?.stats().memoryBytes ?? 0),
      0,
    );
    return {
      reservedBytes,
      ...(limit === undefined ? {} : { memoryBytes: Math.max(0, limit - reservedBytes) }),
    };
  }

  #refuseStopped(): void {
    if (this.#closed) throw new StartError('the host is shutting down');
  }

  /** Closes what is open of a model, also where it is being closed already. */
  #close(model: OpenModel): Promise<void> {
    const closing = model.closers.splice(0).map((close) => close());
    model.closing = Promise.all([model.closing ?? Promise.resolve(), ...closing]).then(
      () => void this.#open.delete(model),
    );
    return model.closing;
  }
}

/** Options that apply to every model but the embedding model. */
function engineOptions(options: Options): Omit<EngineOptions, 'model'> {
  const { context, parallel, quantize, kv_cache_bytes: kvCacheBytes } = options;
  return {
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
