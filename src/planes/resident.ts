import { type Engine, EngineError, formatBytes, type ModelInfo } from '../engine/index.ts';
import { ChatError } from '../chat/index.ts';
import { GrammarError, type GrammarService } from '../grammar/types.ts';
import type { Lab } from '../lab/types.ts';
import type { TraceSpan } from '../tracing/index.ts';
import { ModelAliases, stripLatestTag } from './model-aliases.ts';
import type { ModelCard, StoredModel } from './model-store.ts';
import { HttpError } from '../http/error.ts';
import { modelNotFoundError, requireKind } from './turn/identity.ts';
import { ModelPool, type Lease, type LoadParams, type PoolPlaces } from './model-pool.ts';
import { safeErrorReason } from '../words/plain-reason.ts';
import { commandOf } from '../terminal/program.ts';

/** Most names of loaded models that are noted. */
const maxFoundNames = 256;

/** Returns the lab of the resident model; undefined until it is ready. */
export type LabSource = () => Lab | undefined;

type State =
  | { readonly kind: 'none' }
  /** `isFirst`: the first model of the host; later ones replace another model. */
  | { readonly kind: 'loading'; readonly isFirst: boolean }
  | ({ readonly kind: 'ready' } & ReadyModel);

/** A loaded model with its lab and grammars. */
export interface LoadedModel {
  readonly engine: Engine;
  /** Closes the engine with the lab and the grammars. Default: only the engine is closed. */
  readonly close?: () => Promise<void>;
  /** Called for every request, so that the lab may be created late or replaced. */
  readonly lab?: LabSource;
  readonly grammars?: GrammarService;
}

/** A loaded model and its resources. */
export interface ReadyModel extends Pick<LoadedModel, 'close'> {
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
  /**
   * Whether exactly this name is that of a stored model at another location. Takes the time of one look into a folder.
   * False for a location outside the data directory: a model there has no name but its id.
   */
  readonly isNameOfAnother: (name: string, location: string) => Promise<boolean>;
  /** Whether the model's weights are the ones at a location, under another name. */
  readonly isSame: (model: StoredModel, location: string) => Promise<boolean>;
  /** Reads from a model's header why it cannot be loaded and what kind it is. */
  readonly inspect: (model: StoredModel) => Promise<Pick<ModelCard, 'problem' | 'kind'>>;
  /** Loads a model that a request names. Undefined where requests load nothing. */
  readonly load: ((location: string, params: LoadParams) => Promise<LoadedModel>) | undefined;
  /** Default: one model, which another one may replace. */
  readonly places?: PoolPlaces;
}

const noOthers: OtherModels = {
  find: () => Promise.resolve(undefined),
  isNameOfAnother: () => Promise.resolve(false),
  isSame: () => Promise.resolve(false),
  inspect: () => Promise.resolve({ problem: undefined, kind: 'generate' }),
  load: undefined,
};

/**
 * The loaded models of the host: the resident model, which is none, loading or ready, and those beside it: the embedding
 * model, and models that requests named.
 */
export class Resident {
  /** Further names, which `acquire` and `resolveModel` accept. */
  readonly aliases: ModelAliases;
  /** Whether the resident model of the start is still being loaded. */
  #isStarting: boolean;
  readonly #otherModels: OtherModels;
  /** Models that are or were loaded because of a request, and the resident ones, by id. */
  readonly #knownModels = new Map<string, KnownModel>();
  #embeddingModel: ReadyModel | undefined;
  /** Names that were found in the store since the last load, and mean a loaded model. */
  readonly #foundNames = new Map<string, ResolvedModel>();
  readonly #pool: ModelPool<ReadyModel>;

  constructor(
    start: 'none' | 'loading',
    otherModels: OtherModels = noOthers,
    aliases: ModelAliases = new ModelAliases(),
  ) {
    this.aliases = aliases;
    this.#isStarting = start === 'loading';
    this.#otherModels = otherModels;
    this.#pool = new ModelPool<ReadyModel>(
      {
        load: (location, params) => this.#load(location, params),
        close: (model) => (model.close ? model.close() : model.engine.close()),
        memoryBytes: ({ engine }) => engine.stats().memoryBytes,
        isIdle: ({ engine }) => isIdle(engine),
        missingBytes: (error) => (error instanceof EngineError ? error.missingBytes : undefined),
        toLoadError: (location, error) => {
          const name = location.split(/[/\\]/).at(-1) ?? location;
          return loadFailedError(name, safeErrorReason(error) + this.#describeMemory(error));
        },
        absenceError: (failures) => absenceError(failures),
      },
      otherModels.places ?? { count: 1, canReplaceMain: true },
    );
  }

  get state(): State {
    const ready = this.#pool.main;
    if (ready) return { kind: 'ready', ...ready };
    if (this.#isStarting) return { kind: 'loading', isFirst: true };
    return this.#pool.isMainLoading ? { kind: 'loading', isFirst: false } : { kind: 'none' };
  }

  get engine(): Engine | undefined {
    return this.#pool.main?.engine;
  }

  /** The models that are loaded: the resident model first, then the embedding model, then those that requests named. */
  get models(): readonly ReadyModel[] {
    return this.#pool.models;
  }

  /** The model for embeddings beside the resident one. */
  get embeddingModel(): ReadyModel | undefined {
    return this.#embeddingModel;
  }

  /** The loaded model at a location. */
  loadedAt(location: string): ReadyModel | undefined {
    return this.models.find((model) => model.location === location);
  }

  /** Sets the model for embeddings that stays beside the resident one. It is never closed for another model. */
  setEmbeddingModel(loaded: LoadedModel, location: string): void {
    this.#embeddingModel = toReadyModel(loaded, location);
    this.#pool.add(location, this.#embeddingModel, 'fixed');
  }

  /** Whether a request that names another stored model loads it. */
  get canLoad(): boolean {
    return this.#otherModels.load !== undefined;
  }

  /** Whether models that requests name are loaded beside the resident one. */
  get keepsSeveral(): boolean {
    return this.canLoad && (this.#otherModels.places?.count ?? 1) > 1;
  }

  /** What a request that names another stored model does: nothing, replace the resident model, or load beside it. */
  get loading(): 'none' | 'replace' | 'beside' {
    if (!this.canLoad) return 'none';
    return this.keepsSeveral ? 'beside' : 'replace';
  }

  /** Whether another model may take the place of the resident one. */
  get canReplaceResident(): boolean {
    return this.canLoad && (this.#otherModels.places?.canReplaceMain ?? true);
  }

  setReady(engine: Engine, more: Omit<LoadedModel, 'engine'> & { location?: string } = {}): void {
    const { location = engine.model.id, ...resources } = more;
    this.#isStarting = false;
    const ready = toReadyModel({ engine, ...resources }, location);
    this.#remember(ready);
    this.#pool.add(location, ready, 'main');
  }

  /**
   * Leases the requested model for the duration of a request: a loaded one, by its id or stored name, or another stored
   * one, which is loaded where requests may do so.
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
    const location =
      name === undefined
        ? isResident || kind !== 'embed'
          ? undefined
          : this.#embeddingModel?.location
        : await this.#locateServable(name, kind);
    if (location === undefined && !this.#canChange) this.requireModel();
    const ready = await this.#pool.acquire(location, lease);
    if (kind !== undefined) requireKind(ready.engine.model, kind);
    if (span) span.attributes.model = ready.engine.model.id;
    return ready;
  }

  /** Whether a request may load another model now: not before the resident model of the start is loaded. */
  get #canChange(): boolean {
    return this.canLoad && !this.#isStarting;
  }

  /** Resolves a name, and refuses a model that cannot serve the request before another one is closed for it. */
  async #locateServable(requestedModel: string, kind: ModelInfo['kind'] | undefined): Promise<string> {
    const resolved = await this.resolveModel(requestedModel);
    const { location, stored } = resolved;
    const loaded = this.loadedAt(location);
    if (loaded) {
      if (kind !== undefined) requireKind(loaded.engine.model, kind);
      return location;
    }
    const known = this.findKnownModel(location)?.model;
    const inspected = stored
      ? await this.#otherModels.inspect(stored)
      : { problem: undefined, kind: known?.kind };
    if (inspected.problem !== undefined) throw loadFailedError(requestedModel, inspected.problem);
    if (kind !== undefined && inspected.kind !== undefined)
      requireKind({ id: stripLatestTag(requestedModel), kind: inspected.kind }, kind, 'stored');
    return location;
  }

  /**
   * Resolves a model name, with or without Ollama's tag: an alias, the exact name of a stored model, the id of a loaded
   * one (the resident model's first), then other names and ids of stored models and ids of those that were loaded
   * before. The store is searched only for names that are not known to mean a loaded model.
   * @throws HttpError where no model has the name
   */
  async resolveModel(nameOrAlias: string): Promise<ResolvedModel> {
    const requestedModel = this.aliases.resolve(nameOrAlias);
    if (requestedModel === undefined) return { location: this.requireModel().location, stored: undefined };
    const name = stripLatestTag(requestedModel);
    const known = await this.#resolveLoaded(name);
    if (known) return known;
    const stored = await this.#otherModels.find(requestedModel);
    const loaded = stored && (await this.#findSame(stored));
    if (loaded) return this.#noteFound(name, { location: loaded.location, stored });
    if (!this.#canChange) this.requireModel();
    const location = stored?.location ?? this.#knownModels.get(name)?.location;
    const id = this.engine?.model.id;
    if (location === undefined)
      throw modelNotFoundError(requestedModel, id, this.canLoad ? 'GET /v1/models' : undefined);
    if (id !== undefined && !this.canLoad) throw notResidentError(requestedModel, id);
    return { location, stored };
  }

  /** The loaded model that a name means, as far as the loaded models tell. */
  async #resolveLoaded(name: string): Promise<ResolvedModel | undefined> {
    const byId = this.models.find(({ engine }) => engine.model.id === name);
    const found: ResolvedModel | undefined = byId
      ? { location: byId.location, stored: undefined }
      : this.#foundNames.get(name);
    if (!found || !this.loadedAt(found.location)) return undefined;
    // A host that changes no models has no use for the other one.
    const isOther = this.#canChange && (await this.#otherModels.isNameOfAnother(name, found.location));
    return isOther ? undefined : found;
  }

  /** Notes what a name means. Not for linked copies, which can be deleted while their weights are loaded. */
  #noteFound(name: string, found: ResolvedModel): ResolvedModel {
    if (this.#foundNames.size >= maxFoundNames) this.#foundNames.clear();
    if (found.stored?.location === found.location) this.#foundNames.set(name, found);
    return found;
  }

  /** The loaded model whose weights are those of a stored one. */
  async #findSame(stored: StoredModel): Promise<ReadyModel | undefined> {
    const atSamePlace = this.loadedAt(stored.location);
    if (atSamePlace) return atSamePlace;
    for (const model of this.models) if (await this.#otherModels.isSame(stored, model.location)) return model;
    return undefined;
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

  /** The model that is or was loaded at a location, except for the embedding model. */
  findKnownModel(location: string): KnownModel | undefined {
    return [...this.#knownModels.values()].find((known) => known.location === location);
  }

  /** Pins the resident model for the duration of a request that does not lease it. */
  pin(lease: Lease): void {
    this.#pool.pin(lease);
  }

  /**
   * Closes the model at a location as soon as no request uses it, unless another request comes first. The resident model
   * and the embedding model stay. Nothing happens where none is loaded.
   */
  unload(location: string): void {
    this.#pool.expire(location);
  }

  /** Whether a model is about to be closed because of `unload`. */
  isUnloading({ location }: ReadyModel): boolean {
    return this.#pool.isExpiring(location);
  }

  /** Where a model did not fit: the loaded models that share the memory. */
  #describeMemory(error: unknown): string {
    if (!(error instanceof EngineError) || error.missingBytes === undefined || !this.keepsSeveral) return '';
    const loaded = this.models.map(
      ({ engine }) => `${engine.model.id} (${formatBytes(engine.stats().memoryBytes)})`,
    );
    return loaded.length === 0 ? '' : `; loaded beside it: ${loaded.join(', ')}`;
  }

  async #load(location: string, params: LoadParams): Promise<ReadyModel> {
    const { load } = this.#otherModels;
    if (!load) throw new Error('this host keeps its model');
    const ready = toReadyModel(await load(location, params), location);
    this.#remember(ready);
    return ready;
  }

  #remember({ engine, location, loadedAt }: ReadyModel): void {
    this.#foundNames.clear();
    const previous = this.findKnownModel(location)?.model.id;
    if (previous !== undefined) this.#knownModels.delete(previous);
    this.#knownModels.set(engine.model.id, { model: engine.model, location, loadedAt });
  }

  /** The resident model. @throws HttpError 503 that states why there is none */
  requireModel(): ReadyModel {
    const ready = this.#pool.main;
    if (ready) return ready;
    if (this.state.kind === 'loading') throw modelLoadingError();
    throw absenceError(this.#pool.mainFailures);
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

const toReadyModel = ({ engine, lab, grammars, close }: LoadedModel, location: string): ReadyModel => ({
  engine,
  grammars,
  lab,
  ...(close ? { close } : {}),
  loadedAt: new Date(),
  location,
});

function isIdle(engine: Engine): boolean {
  const { running, queued, stalledReaders } = engine.stats();
  return running + queued + stalledReaders === 0;
}

/** @param failures why the last model could not be loaded, and then the one before it */
function absenceError(failures: readonly unknown[]): HttpError {
  const reasons = failures.map(safeErrorReason);
  const message =
    reasons.length === 0
      ? `No model is resident: the host was started without --gpu. Start it as: ${commandOf('host')} --gpu`
      : `No model is resident, since the last one could not be loaded: ${reasons.join('; and the previous model failed too: ')}. ` +
        'Name a stored model to load it.';
  return new HttpError(503, 'no_resident_model', message, { headers: { 'x-should-retry': 'false' } });
}

export const modelLoadingError = (): HttpError =>
  new HttpError(503, 'model_loading', 'Loading model', { headers: { 'retry-after': '1' } });

const notResidentError = (requestedModel: string, resident: string): HttpError =>
  new HttpError(
    404,
    'model_not_resident',
    `The model '${requestedModel.slice(0, 200)}' is stored but not resident; the resident model is '${resident}'. Start the host ` +
      `with --swap to let requests change it, with --resident 2 to load it beside, or with --model ${requestedModel.slice(0, 200)}.`,
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
