import { type Engine, EngineError, type ModelInfo } from '../engine/index.ts';
import { ChatError } from '../chat/index.ts';
import { GrammarError, type GrammarService } from '../grammar/types.ts';
import type { Lab } from '../lab/types.ts';
import type { TraceSpan } from '../tracing/index.ts';
import { ModelAliases, stripLatestTag } from './model-aliases.ts';
import type { ModelCard, StoredModel } from './model-store.ts';
import { HttpError } from '../http/error.ts';
import { modelNotFoundError, requireKind } from './turn/identity.ts';
import { ModelSwapGate, type Lease } from './model-swap-gate.ts';
import { safeErrorReason } from '../words/plain-reason.ts';

/** Returns the lab of the resident model; undefined until it is ready. */
export type LabSource = () => Lab | undefined;

type State =
  /** `reason`: why the last model could not be loaded. */
  | { readonly kind: 'none'; readonly reason?: string }
  /** `isFirst`: the first model of the host; later ones replace another model. */
  | { readonly kind: 'loading'; readonly isFirst: boolean }
  | ({ readonly kind: 'ready' } & ReadyModel);

/** A loaded model with its lab and grammars. */
export interface LoadedModel {
  readonly engine: Engine;
  /** Called for every request, so that the lab may be created late or replaced. */
  readonly lab?: LabSource;
  readonly grammars?: GrammarService;
}

/** The resident model and its resources. */
export interface ReadyModel {
  readonly engine: Engine;
  /** Undefined where the host does not support constrained output. */
  readonly grammars: GrammarService | undefined;
  readonly lab: LabSource | undefined;
  readonly loadedAt: Date;
  /** Location of the model; its id where no location is known. */
  readonly location: string;
}

/** The model that a name resolves to. */
interface ResolvedModel {
  readonly location: string;
  /** Undefined where the name is the id of a model that is or was resident. */
  readonly stored: StoredModel | undefined;
}

/** A model that is or was resident. */
type KnownModel = Pick<ReadyModel, 'location' | 'loadedAt'> & { readonly model: ModelInfo };

/** A request for a model lease. */
export interface LeaseRequest extends Lease {
  /** Span of the request; the requested and the resident model are recorded on it. */
  readonly span?: TraceSpan<'completion'>;
}

/** Access to models other than the resident one. */
export interface OtherModels {
  readonly find: (name: string) => Promise<StoredModel | undefined>;
  /** Whether the model's weights are the ones at a location, under another name. */
  readonly isSame: (model: StoredModel, location: string) => Promise<boolean>;
  /** Reads from a model's header why it cannot be loaded and what kind it is. */
  readonly inspect: (model: StoredModel) => Promise<Pick<ModelCard, 'problem' | 'kind'>>;
  /** Closes the resident model and loads this one. Undefined where requests may not change the model. */
  readonly load: ((location: string) => Promise<LoadedModel>) | undefined;
}

const noOthers: OtherModels = {
  find: () => Promise.resolve(undefined),
  isSame: () => Promise.resolve(false),
  inspect: () => Promise.resolve({ problem: undefined, kind: 'generate' }),
  load: undefined,
};

/** The resident model of the host: none, loading or ready. */
export class Resident {
  /** Further names, which `acquire` and `resolveModel` accept. */
  readonly aliases: ModelAliases;
  #state: State;
  readonly #otherModels: OtherModels;
  /** Models that are or were resident, by id. */
  readonly #knownModels = new Map<string, KnownModel>();
  #lastLocation: string | undefined;
  #embeddingModel: ReadyModel | undefined;
  readonly #swapGate = new ModelSwapGate<ReadyModel>({
    current: () =>
      this.#state.kind === 'ready' ? { location: this.#state.location, model: this.#state } : undefined,
    swap: (location) => this.#swap(location),
    isIdle: () => this.#isIdle(),
    absenceError: () => this.#absenceError(),
  });

  constructor(
    start: 'none' | 'loading',
    otherModels: OtherModels = noOthers,
    aliases: ModelAliases = new ModelAliases(),
  ) {
    this.aliases = aliases;
    this.#state = start === 'none' ? { kind: 'none' } : { kind: 'loading', isFirst: true };
    this.#otherModels = otherModels;
  }

  get state(): State {
    return this.#state;
  }

  get engine(): Engine | undefined {
    return this.#state.kind === 'ready' ? this.#state.engine : undefined;
  }

  /** The models that are loaded: the resident model first, then the embedding model. */
  get models(): readonly ReadyModel[] {
    const ready = this.#state.kind === 'ready' ? [this.#state] : [];
    return [...ready, ...(this.#embeddingModel ? [this.#embeddingModel] : [])];
  }

  /** The model for embeddings beside the resident one. */
  get embeddingModel(): ReadyModel | undefined {
    return this.#embeddingModel;
  }

  /** The loaded model at a location. */
  loadedAt(location: string): ReadyModel | undefined {
    return this.models.find((model) => model.location === location);
  }

  /** Sets the model for embeddings that stays beside the resident one. It is never swapped. */
  setEmbeddingModel(engine: Engine, location: string): void {
    const loadedAt = new Date();
    this.#embeddingModel = { engine, grammars: undefined, lab: undefined, loadedAt, location };
  }

  /** Whether a request that names another stored model causes a swap. */
  get canSwap(): boolean {
    return this.#otherModels.load !== undefined;
  }

  setReady(engine: Engine, more: Omit<LoadedModel, 'engine'> & { location?: string } = {}): void {
    const { lab, grammars, location = engine.model.id } = more;
    const loadedAt = new Date();
    const previous = this.findKnownModel(location)?.model.id;
    if (previous !== undefined) this.#knownModels.delete(previous);
    this.#knownModels.set(engine.model.id, { model: engine.model, location, loadedAt });
    this.#lastLocation = location;
    this.#state = { kind: 'ready', engine, grammars, lab, loadedAt, location };
  }

  /**
   * Leases the requested model for the duration of a request: the resident one, by its id or stored name, or another
   * stored one, which replaces it where the host may swap. The embedding model needs no lease.
   * @param requestedModel absent: for embeddings the embedding model, otherwise the resident model, whichever it is
   * @param kind the kind the request needs, where it matters; a model of the other kind is refused without loading it
   */
  async acquire(
    requestedModel: string | null | undefined,
    { span, ...lease }: LeaseRequest,
    kind?: ModelInfo['kind'],
  ): Promise<ReadyModel> {
    if (span && typeof requestedModel === 'string') span.attributes.requestedModel = requestedModel;
    const name = this.aliases.resolve(requestedModel ?? undefined);
    // An alias of `resident` means the resident model, also for embeddings.
    const isResident = name === undefined && typeof requestedModel === 'string';
    const ready =
      (isResident ? undefined : await this.#findEmbeddingModel(name, kind)) ??
      (await this.#lease(name, lease, kind));
    if (kind !== undefined) requireKind(ready.engine.model, kind);
    if (span) span.attributes.model = ready.engine.model.id;
    return ready;
  }

  /** The embedding model, where a request names it, or is for embeddings and names no model. */
  async #findEmbeddingModel(
    requestedModel: string | undefined,
    kind: ModelInfo['kind'] | undefined,
  ): Promise<ReadyModel | undefined> {
    const model = this.#embeddingModel;
    if (!model) return undefined;
    if (requestedModel === undefined) return kind === 'embed' ? model : undefined;
    return (await this.#isNameOf(requestedModel, model)) ? model : undefined;
  }

  async #isNameOf(requestedModel: string, { engine, location }: ReadyModel): Promise<boolean> {
    // The resident model's id takes precedence where both have the same.
    if (stripLatestTag(requestedModel) === this.engine?.model.id) return false;
    if (stripLatestTag(requestedModel) === engine.model.id) return true;
    const stored = await this.#otherModels.find(requestedModel);
    return stored !== undefined && (await this.#otherModels.isSame(stored, location));
  }

  async #lease(
    requestedModel: string | undefined,
    lease: Lease,
    kind?: ModelInfo['kind'],
  ): Promise<ReadyModel> {
    const resolved = requestedModel === undefined ? undefined : await this.resolveModel(requestedModel);
    // The host does not swap, or has no model yet.
    if (!this.canSwap || (this.#state.kind === 'loading' && this.#state.isFirst)) return this.requireModel();
    if (requestedModel !== undefined && resolved) await this.#requireServable(requestedModel, resolved, kind);
    return await this.#swapGate.acquire(resolved?.location, lease);
  }

  /**
   * Resolves a model name: the resident model, by its id, stored name or alias, with or without Ollama's tag; where
   * requests may swap, also another stored model or one that was resident before.
   * @throws HttpError where no model has the name
   */
  async resolveModel(nameOrAlias: string): Promise<ResolvedModel> {
    const requestedModel = this.aliases.resolve(nameOrAlias);
    if (requestedModel === undefined) return { location: this.requireModel().location, stored: undefined };
    const embeddingModel = await this.#findEmbeddingModel(requestedModel, undefined);
    if (embeddingModel) {
      const stored = await this.#otherModels.find(requestedModel);
      return { location: embeddingModel.location, stored };
    }
    if (!this.canSwap || (this.#state.kind === 'loading' && this.#state.isFirst)) this.requireModel();
    const ready = this.#state.kind === 'ready' ? this.#state : undefined;
    const id = ready?.engine.model.id;
    const name = stripLatestTag(requestedModel);
    if (ready && name === id) return { location: ready.location, stored: undefined };
    const stored = await this.#otherModels.find(requestedModel);
    if (stored && ready && (await this.#otherModels.isSame(stored, ready.location)))
      return { location: ready.location, stored };
    const location = stored?.location ?? this.#knownModels.get(name)?.location;
    if (location === undefined)
      throw modelNotFoundError(requestedModel, id, this.canSwap ? 'GET /v1/models' : undefined);
    if (id !== undefined && !this.canSwap) throw notResidentError(requestedModel, id);
    return { location, stored };
  }

  /** The aliases that requests can use now, with the location of their model. */
  async listAliases(): Promise<{ readonly name: string; readonly location: string }[]> {
    const resolved = this.aliases.names.map(async (name) => {
      try {
        return [{ name, location: (await this.resolveModel(name)).location }];
      } catch (error) {
        // The model was deleted, or none is resident.
        if (error instanceof HttpError) return [];
        throw error;
      }
    });
    return (await Promise.all(resolved)).flat();
  }

  /** The model that is or was resident at a location. */
  findKnownModel(location: string): KnownModel | undefined {
    return [...this.#knownModels.values()].find((known) => known.location === location);
  }

  /** Refuses a model that cannot serve the request before the resident one is closed for it. */
  async #requireServable(
    requestedModel: string,
    { location, stored }: ResolvedModel,
    kind: ModelInfo['kind'] | undefined,
  ): Promise<void> {
    if (this.#state.kind === 'ready' && this.#state.location === location) {
      if (kind !== undefined) requireKind(this.#state.engine.model, kind);
      return;
    }
    const known = this.findKnownModel(location)?.model;
    const inspected = stored
      ? await this.#otherModels.inspect(stored)
      : { problem: undefined, kind: known?.kind };
    if (inspected.problem !== undefined) throw loadFailedError(requestedModel, inspected.problem);
    if (kind !== undefined && inspected.kind !== undefined)
      requireKind({ id: stripLatestTag(requestedModel), kind: inspected.kind }, kind, 'stored');
  }

  /** Pins the resident model for the duration of a request that does not lease it. */
  pin(lease: Lease): void {
    if (this.#state.kind === 'ready') this.#swapGate.pin(lease);
  }

  /** Loads another model. On failure, reloads the previous one. */
  async #swap(location: string): Promise<void> {
    const { load } = this.#otherModels;
    if (!load) throw new Error('this host keeps its model');
    const previous = this.#lastLocation;
    this.#state = { kind: 'loading', isFirst: false };
    try {
      const { engine, ...more } = await load(location);
      this.setReady(engine, { ...more, location });
    } catch (error) {
      const reason = safeErrorReason(error);
      await this.#restore(previous === location ? undefined : previous, reason, load);
      throw loadFailedError(location.split(/[/\\]/).at(-1) ?? location, reason);
    }
  }

  async #restore(
    previous: string | undefined,
    reason: string,
    load: NonNullable<OtherModels['load']>,
  ): Promise<void> {
    this.#state = { kind: 'none', reason };
    if (previous === undefined) return;
    this.#state = { kind: 'loading', isFirst: false };
    try {
      const { engine, ...more } = await load(previous);
      this.setReady(engine, { ...more, location: previous });
    } catch (error) {
      this.#state = {
        kind: 'none',
        reason: `${reason}; and the previous model failed too: ${safeErrorReason(error)}`,
      };
    }
  }

  #isIdle(): boolean {
    const stats = this.engine?.stats();
    return stats === undefined || stats.running + stats.queued + stats.stalledReaders === 0;
  }

  #absenceError(): HttpError {
    const reason = this.#state.kind === 'none' ? this.#state.reason : undefined;
    const message =
      reason === undefined
        ? 'No model is resident: the host was started without --gpu. Start it as: node dist/host.js --gpu'
        : `No model is resident, since the last one could not be loaded: ${reason}. Name a stored model to load it.`;
    return new HttpError(503, 'no_resident_model', message, { headers: { 'x-should-retry': 'false' } });
  }

  /** The resident model. @throws HttpError 503 that states why there is none */
  requireModel(): ReadyModel {
    if (this.#state.kind === 'ready') return this.#state;
    if (this.#state.kind === 'loading') throw modelLoadingError();
    throw this.#absenceError();
  }

  /** The lab. @throws HttpError 503 that states why there is none */
  requireLab(): Lab {
    const { lab } = this.requireModel();
    if (lab === undefined)
      throw new HttpError(503, 'lab_unavailable', 'This host serves its model without a kernel lab.');
    const ready = lab();
    if (ready !== undefined) return ready;
    throw new HttpError(503, 'lab_starting', 'The kernel lab is not ready yet.', {
      headers: { 'retry-after': '1' },
    });
  }
}

export const modelLoadingError = (): HttpError =>
  new HttpError(503, 'model_loading', 'Loading model', { headers: { 'retry-after': '1' } });

const notResidentError = (requestedModel: string, resident: string): HttpError =>
  new HttpError(
    404,
    'model_not_resident',
    `The model '${requestedModel.slice(0, 200)}' is stored but not resident; the resident model is '${resident}'. Start the host ` +
      `with --swap to let requests change it, or with --model ${requestedModel.slice(0, 200)}.`,
    { param: 'model' },
  );

const loadFailedError = (requestedModel: string, reason: string): HttpError =>
  new HttpError(
    500,
    'model_load_failed',
    `The model '${requestedModel.slice(0, 200)}' cannot be loaded: ${reason}`,
    {
      param: 'model',
      headers: { 'x-should-retry': 'false' },
    },
  );

/**
 * Converts errors of the engine, the chat templates and the grammars to `HttpError`s; returns any other error
 * unchanged.
 */
export function toHttpError(error: unknown): unknown {
  if (error instanceof ChatError) return new HttpError(400, error.code, error.message, { param: 'messages' });
  if (error instanceof GrammarError) {
    const { code, message, path } = error;
    return new HttpError(400, code, message, path === undefined ? {} : { param: path });
  }
  if (!(error instanceof EngineError)) return error;
  const { code, message, cause } = error;
  // The grammar exceeded a limit while the answer was generated.
  if (cause instanceof GrammarError) return toHttpError(cause);
  switch (code) {
    case 'queue_full':
      return new HttpError(429, code, message, { headers: { 'retry-after': '1' } });
    case 'context_length_exceeded':
    case 'invalid_request':
      return new HttpError(400, code, message);
    case 'device_lost':
    case 'shutting_down':
      return new HttpError(503, code, message, { headers: { 'retry-after': '1' } });
    // Without a cause this is not a fault: the grammar requires text that the model's tokens cannot write.
    case 'constraint_failed':
      return new HttpError(cause === undefined ? 400 : 500, code, message);
    case 'broken_model':
    case 'model_unreadable':
      return new HttpError(500, code, message);
    case 'reader_stalled':
      return new HttpError(408, code, message);
    case 'no_adapter':
    case 'model_too_large':
    case 'unsupported_model':
      return new HttpError(503, code, message);
  }
}
