import { type Engine, EngineError, type ModelInfo } from '../engine/index.ts';
import { ChatError } from '../chat/index.ts';
import { GrammarError, type Grammars } from '../grammar/types.ts';
import type { Lab } from '../lab/types.ts';
import type { Work } from '../watch/index.ts';
import type { ModelCard, StoredModel } from './model-store.ts';
import { HttpError } from '../http/error.ts';
import { modelNotFound, requireKind } from './turn/identity.ts';
import { Turnstile, type Visit } from './turnstile.ts';
import { plainReason } from '../words/plain-reason.ts';

/** Returns the lab of the resident model; undefined until it is ready. */
export type LabSource = () => Lab | undefined;

type State =
  /** `reason`: why the last model could not be loaded. */
  | { readonly kind: 'none'; readonly why?: string }
  /** `isFirst`: the first model of the host; later ones replace another model. */
  | { readonly kind: 'loading'; readonly first: boolean }
  | ({ readonly kind: 'ready' } & ReadyModel);

/** A loaded model with its lab and grammars. */
export interface LoadedModel {
  readonly engine: Engine;
  /** Called for every request, so that the lab may be created late or replaced. */
  readonly lab?: LabSource;
  readonly grammars?: Grammars;
}

/** The resident model and its resources. */
export interface ReadyModel {
  readonly engine: Engine;
  /** Undefined where the host does not support constrained output. */
  readonly grammars: Grammars | undefined;
  readonly lab: LabSource | undefined;
  readonly loadedAt: Date;
  /** Location of the model; its id where no location is known. */
  readonly location: string;
}

/** The model that a name resolves to. */
interface Named {
  readonly location: string;
  /** Undefined where the name is the id of a model that is or was resident. */
  readonly stored: StoredModel | undefined;
}

/** A model that is or was resident. */
type KnownModel = Pick<ReadyModel, 'location' | 'loadedAt'> & { readonly model: ModelInfo };

/** A request for a model lease. */
export interface Visitor extends Visit {
  /** Span of the request; the requested and the resident model are recorded on it. */
  readonly work?: Work<'completion'>;
}

/** Access to models other than the resident one. */
export interface OtherModels {
  readonly find: (name: string) => Promise<StoredModel | undefined>;
  /** Whether the model's weights are the ones at a location, under another name. */
  readonly isSame: (model: StoredModel, location: string) => Promise<boolean>;
  /** Reads from a model's header why it cannot be loaded and what kind it is. */
  readonly look: (model: StoredModel) => Promise<Pick<ModelCard, 'problem' | 'kind'>>;
  /** Closes the resident model and loads this one. Undefined where requests may not change the model. */
  readonly load: ((location: string) => Promise<LoadedModel>) | undefined;
}

const noOthers: OtherModels = {
  find: () => Promise.resolve(undefined),
  isSame: () => Promise.resolve(false),
  look: () => Promise.resolve({ problem: undefined, kind: 'generate' }),
  load: undefined,
};

/** The resident model of the host: none, loading or ready. */
export class Resident {
  #state: State;
  readonly #others: OtherModels;
  /** Models that are or were resident, by id. */
  readonly #known = new Map<string, KnownModel>();
  #last: string | undefined;
  readonly #turnstile = new Turnstile<ReadyModel>({
    current: () =>
      this.#state.kind === 'ready' ? { location: this.#state.location, model: this.#state } : undefined,
    change: (location) => this.#change(location),
    idle: () => this.#isIdle(),
    empty: () => this.#absence(),
  });

  constructor(start: 'none' | 'loading', others: OtherModels = noOthers) {
    this.#state = start === 'none' ? { kind: 'none' } : { kind: 'loading', first: true };
    this.#others = others;
  }

  get state(): State {
    return this.#state;
  }

  get engine(): Engine | undefined {
    return this.#state.kind === 'ready' ? this.#state.engine : undefined;
  }

  /** Whether a request that names another stored model causes a swap. */
  get swaps(): boolean {
    return this.#others.load !== undefined;
  }

  ready(engine: Engine, more: Omit<LoadedModel, 'engine'> & { location?: string } = {}): void {
    const { lab, grammars, location = engine.model.id } = more;
    const loadedAt = new Date();
    const before = this.knownAt(location)?.model.id;
    if (before !== undefined) this.#known.delete(before);
    this.#known.set(engine.model.id, { model: engine.model, location, loadedAt });
    this.#last = location;
    this.#state = { kind: 'ready', engine, grammars, lab, loadedAt, location };
  }

  /**
   * Leases the requested model for the duration of a request: the resident one, by its id or stored name, or another
   * stored one, which replaces it where the host may swap.
   * @param requestedModel absent: the resident model, whichever it is
   * @param kind the kind the request needs, where it matters; a model of the other kind is refused without loading it
   */
  async use(
    asked: string | null | undefined,
    { work, ...visit }: Visitor,
    kind?: ModelInfo['kind'],
  ): Promise<ReadyModel> {
    if (work && typeof asked === 'string') work.facts.requestedModel = asked;
    const ready = await this.#enter(asked ?? undefined, visit, kind);
    if (kind !== undefined) requireKind(ready.engine.model, kind);
    if (work) work.facts.model = ready.engine.model.id;
    return ready;
  }

  async #enter(asked: string | undefined, visit: Visit, kind?: ModelInfo['kind']): Promise<ReadyModel> {
    const named = asked === undefined ? undefined : await this.named(asked);
    // The host does not swap, or has no model yet.
    if (!this.swaps || (this.#state.kind === 'loading' && this.#state.first)) return this.require();
    if (asked !== undefined && named) await this.#requireUseful(asked, named, kind);
    return await this.#turnstile.enter(named?.location, visit);
  }

  /**
   * Resolves a model name: the resident model, by its id or stored name, with or without Ollama's tag; where requests
   * may swap, also another stored model or one that was resident before.
   * @throws HttpError where no model has the name
   */
  async named(asked: string): Promise<Named> {
    if (!this.swaps || (this.#state.kind === 'loading' && this.#state.first)) this.require();
    const ready = this.#state.kind === 'ready' ? this.#state : undefined;
    const id = ready?.engine.model.id;
    const name = plainName(asked);
    if (ready && name === id) return { location: ready.location, stored: undefined };
    const stored = await this.#others.find(asked);
    if (stored && ready && (await this.#others.isSame(stored, ready.location)))
      return { location: ready.location, stored };
    const location = stored?.location ?? this.#known.get(name)?.location;
    if (location === undefined) throw modelNotFound(asked, id, this.swaps ? 'GET /v1/models' : undefined);
    if (id !== undefined && !this.swaps) throw notResident(asked, id);
    return { location, stored };
  }

  /** The model that is or was resident at a location. */
  knownAt(location: string): KnownModel | undefined {
    return [...this.#known.values()].find((known) => known.location === location);
  }

  /** Refuses a model that cannot serve the request before the resident one is closed for it. */
  async #requireUseful(
    asked: string,
    { location, stored }: Named,
    kind: ModelInfo['kind'] | undefined,
  ): Promise<void> {
    if (this.#state.kind === 'ready' && this.#state.location === location) {
      if (kind !== undefined) requireKind(this.#state.engine.model, kind);
      return;
    }
    const known = this.knownAt(location)?.model;
    const seen = stored ? await this.#others.look(stored) : { problem: undefined, kind: known?.kind };
    if (seen.problem !== undefined) throw loadFailed(asked, seen.problem);
    if (kind !== undefined && seen.kind !== undefined)
      requireKind({ id: plainName(asked), kind: seen.kind }, kind, 'stored');
  }

  /** Pins the resident model for the duration of a request that does not lease it. */
  hold(visit: Visit): void {
    if (this.#state.kind === 'ready') this.#turnstile.hold(visit);
  }

  /** Loads another model. On failure, reloads the previous one. */
  async #change(location: string): Promise<void> {
    const { load } = this.#others;
    if (!load) throw new Error('this host keeps its model');
    const before = this.#last;
    this.#state = { kind: 'loading', first: false };
    try {
      const { engine, ...more } = await load(location);
      this.ready(engine, { ...more, location });
    } catch (error) {
      const why = plainReason(error);
      await this.#restore(before === location ? undefined : before, why, load);
      throw loadFailed(location.split(/[/\\]/).at(-1) ?? location, why);
    }
  }

  async #restore(
    before: string | undefined,
    why: string,
    load: NonNullable<OtherModels['load']>,
  ): Promise<void> {
    this.#state = { kind: 'none', why };
    if (before === undefined) return;
    this.#state = { kind: 'loading', first: false };
    try {
      const { engine, ...more } = await load(before);
      this.ready(engine, { ...more, location: before });
    } catch (error) {
      this.#state = { kind: 'none', why: `${why}; and the previous model failed too: ${plainReason(error)}` };
    }
  }

  #isIdle(): boolean {
    const stats = this.engine?.stats();
    return stats === undefined || stats.running + stats.queued + stats.parked === 0;
  }

  #absence(): HttpError {
    const why = this.#state.kind === 'none' ? this.#state.why : undefined;
    const message =
      why === undefined
        ? 'No model is resident: the host was started without --gpu. Start it as: node dist/host.js --gpu'
        : `No model is resident, since the last one could not be loaded: ${why}. Name a stored model to load it.`;
    return new HttpError(503, 'no_resident_model', message, { headers: { 'x-should-retry': 'false' } });
  }

  /** The resident model. @throws HttpError 503 that states why there is none */
  require(): ReadyModel {
    if (this.#state.kind === 'ready') return this.#state;
    if (this.#state.kind === 'loading') throw loading();
    throw this.#absence();
  }

  /** The lab. @throws HttpError 503 that states why there is none */
  requireLab(): Lab {
    const { lab } = this.require();
    if (lab === undefined)
      throw new HttpError(503, 'lab_unavailable', 'This host serves its model without a kernel lab.');
    const ready = lab();
    if (ready !== undefined) return ready;
    throw new HttpError(503, 'lab_starting', 'The kernel lab is not ready yet.', {
      headers: { 'retry-after': '1' },
    });
  }
}

export const loading = (): HttpError =>
  new HttpError(503, 'model_loading', 'Loading model', { headers: { 'retry-after': '1' } });

/** Removes Ollama's default tag, which has no meaning here. */
export const plainName = (asked: string): string => asked.replace(/:latest$/, '');

const notResident = (asked: string, resident: string): HttpError =>
  new HttpError(
    404,
    'model_not_resident',
    `The model '${asked.slice(0, 200)}' is stored but not resident; the resident model is '${resident}'. Start the host ` +
      `with --swap to let requests change it, or with --model ${asked.slice(0, 200)}.`,
    { param: 'model' },
  );

const loadFailed = (asked: string, why: string): HttpError =>
  new HttpError(500, 'model_load_failed', `The model '${asked.slice(0, 200)}' cannot be loaded: ${why}`, {
    param: 'model',
    headers: { 'x-should-retry': 'false' },
  });

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
