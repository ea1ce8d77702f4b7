import { type Engine, EngineError } from '../engine/index.ts';
import { ChatError } from '../chat/index.ts';
import { GrammarError, type Grammars } from '../grammar/types.ts';
import type { Lab } from '../lab/types.ts';
import type { StoredModel } from './model-store.ts';
import { Problem } from './problem.ts';
import { modelNotFound } from './turn/identity.ts';
import { Turnstile, type Visit } from './turnstile.ts';

/** The lab over the resident model; undefined as long as it is not ready. */
export type LabSource = () => Lab | undefined;

type State =
  /** `why`: where the last one could not be loaded. */
  | { readonly kind: 'none'; readonly why?: string }
  /** `first`: of the host; later ones take the place of another. */
  | { readonly kind: 'loading'; readonly first: boolean }
  | ({ readonly kind: 'ready' } & ReadyModel);

/** A model as it was loaded. */
export interface LoadedModel {
  readonly engine: Engine;
  /** Asked at every request, so that it may be made late or replaced. */
  readonly lab?: LabSource;
  readonly grammars?: Grammars;
}

/** A loaded model and what belongs to it. */
export interface ReadyModel {
  readonly engine: Engine;
  /** Undefined where the host constrains no answers. */
  readonly grammars: Grammars | undefined;
  readonly lab: LabSource | undefined;
  readonly loadedAt: Date;
  /** Where it lies; its id where nobody said. */
  readonly location: string;
}

/** Models beside the resident one. */
export interface OtherModels {
  readonly find: (name: string) => Promise<StoredModel | undefined>;
  /** Whether its weights are those at this place, under another name. */
  readonly isSame: (model: StoredModel, location: string) => Promise<boolean>;
  /** Why a model could not be loaded, as far as its header tells. */
  readonly problemOf: (model: StoredModel) => Promise<string | undefined>;
  /** Closes the model that is loaded and loads this one. Undefined where requests may not change the model. */
  readonly load: ((location: string) => Promise<LoadedModel>) | undefined;
}

const noOthers: OtherModels = {
  find: () => Promise.resolve(undefined),
  isSame: () => Promise.resolve(false),
  problemOf: () => Promise.resolve(undefined),
  load: undefined,
};

/** The one resident model as the planes see it: absent, on its way, or there. */
export class Resident {
  #state: State;
  readonly #others: OtherModels;
  /** Where models lie that were resident, by their ids. */
  readonly #places = new Map<string, string>();
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

  /** Whether requests that name another stored model get it. */
  get swaps(): boolean {
    return this.#others.load !== undefined;
  }

  ready(engine: Engine, more: Omit<LoadedModel, 'engine'> & { location?: string } = {}): void {
    const { lab, grammars, location = engine.model.id } = more;
    this.#places.set(engine.model.id, location);
    this.#last = location;
    this.#state = { kind: 'ready', engine, grammars, lab, loadedAt: new Date(), location };
  }

  /**
   * The model that a request asks for, for as long as the request lasts: the resident one, by its id or the name it is
   * stored under; or another stored one, which is loaded in its place where the host may do so.
   * @param asked absent: whichever is resident
   */
  async use(asked: string | null | undefined, visit: Visit): Promise<ReadyModel> {
    const { load } = this.#others;
    if (!load || (this.#state.kind === 'loading' && this.#state.first)) {
      const ready = this.require();
      await this.#requireNamed(asked, ready);
      return ready;
    }
    const wanted = asked === null || asked === undefined ? undefined : await this.#placeOf(asked);
    return await this.#turnstile.enter(wanted, visit);
  }

  /** Keeps the model that is resident for as long as a request lasts that asks for none. */
  hold(visit: Visit): void {
    if (this.#state.kind === 'ready') this.#turnstile.hold(visit);
  }

  async #requireNamed(asked: string | null | undefined, { engine, location }: ReadyModel): Promise<void> {
    const { id } = engine.model;
    if (asked === null || asked === undefined || plainName(asked) === id) return;
    const stored = await this.#others.find(asked);
    if (!stored) throw modelNotFound(asked, id);
    if (!(await this.#others.isSame(stored, location))) throw notResident(asked, id);
  }

  async #placeOf(asked: string): Promise<string> {
    const ready = this.#state.kind === 'ready' ? this.#state : undefined;
    const name = plainName(asked);
    if (ready && name === ready.engine.model.id) return ready.location;
    const stored = await this.#others.find(asked);
    const place = stored?.location ?? this.#places.get(name);
    if (place === undefined) throw modelNotFound(asked, ready?.engine.model.id);
    if (!stored) return place;
    if (ready && (await this.#others.isSame(stored, ready.location))) return ready.location;
    // Before the one that works is closed for it.
    const problem = await this.#others.problemOf(stored);
    if (problem !== undefined) throw loadFailed(asked, problem);
    return place;
  }

  /** Loads another model; where that fails, the one that was there. */
  async #change(location: string): Promise<void> {
    const { load } = this.#others;
    if (!load) throw new Error('this host keeps its model');
    const before = this.#last;
    this.#state = { kind: 'loading', first: false };
    try {
      const { engine, ...more } = await load(location);
      this.ready(engine, { ...more, location });
    } catch (error) {
      const why = messageOf(error);
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
      this.#state = { kind: 'none', why: `${why}; and what was resident before: ${messageOf(error)}` };
    }
  }

  #isIdle(): boolean {
    const stats = this.engine?.stats();
    return stats === undefined || stats.running + stats.queued + stats.parked === 0;
  }

  #absence(): Problem {
    const why = this.#state.kind === 'none' ? this.#state.why : undefined;
    const message =
      why === undefined
        ? 'No model is resident: the host was started without --gpu. Start it as: node dist/host.js --gpu'
        : `No model is resident, since the last one could not be loaded: ${why}. Name a stored model to load it.`;
    return new Problem(503, 'no_resident_model', message, { headers: { 'x-should-retry': 'false' } });
  }

  /** The engine, or a 503 that says why there is none. */
  require(): ReadyModel {
    if (this.#state.kind === 'ready') return this.#state;
    if (this.#state.kind === 'loading') throw loading();
    throw this.#absence();
  }

  /** The lab, or a 503 that says why there is none. */
  requireLab(): Lab {
    const { lab } = this.require();
    if (lab === undefined)
      throw new Problem(503, 'lab_unavailable', 'This host serves its model without a kernel lab.');
    const ready = lab();
    if (ready !== undefined) return ready;
    throw new Problem(503, 'lab_starting', 'The kernel lab is not ready yet.', {
      headers: { 'retry-after': '1' },
    });
  }
}

export const loading = (): Problem =>
  new Problem(503, 'model_loading', 'Loading model', { headers: { 'retry-after': '1' } });

/** Ollama's clients name the default tag, which means nothing here. */
export const plainName = (asked: string): string => asked.replace(/:latest$/, '');

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

const notResident = (asked: string, resident: string): Problem =>
  new Problem(
    404,
    'model_not_resident',
    `The model '${asked.slice(0, 200)}' is stored but not resident; the resident model is '${resident}'. Start the host ` +
      `with --swap to let requests change it, or with --model ${asked.slice(0, 200)}.`,
    { param: 'model' },
  );

const loadFailed = (asked: string, why: string): Problem =>
  new Problem(500, 'model_load_failed', `The model '${asked.slice(0, 200)}' cannot be loaded: ${why}`, {
    param: 'model',
    headers: { 'x-should-retry': 'false' },
  });

/** A refusal of the engine, of a conversation or of a grammar as an answer; anything else passes through. */
export function toProblem(error: unknown): unknown {
  if (error instanceof ChatError) return new Problem(400, error.code, error.message, { param: 'messages' });
  if (error instanceof GrammarError) {
    const { code, message, path } = error;
    return new Problem(400, code, message, path === undefined ? {} : { param: path });
  }
  if (!(error instanceof EngineError)) return error;
  const { code, message, cause } = error;
  // What was asked for turned out to be too much in the middle of the answer.
  if (cause instanceof GrammarError) return toProblem(cause);
  switch (code) {
    case 'queue_full':
      return new Problem(429, code, message, { headers: { 'retry-after': '1' } });
    case 'context_length_exceeded':
    case 'invalid_request':
      return new Problem(400, code, message);
    case 'device_lost':
    case 'shutting_down':
      return new Problem(503, code, message, { headers: { 'retry-after': '1' } });
    // Without a cause nothing broke: the grammar asks for what this model's tokens cannot write.
    case 'constraint_failed':
      return new Problem(cause === undefined ? 400 : 500, code, message);
    case 'broken_model':
      return new Problem(500, code, message);
    case 'reader_stalled':
      return new Problem(408, code, message);
    case 'no_adapter':
    case 'model_too_large':
    case 'unsupported_model':
      return new Problem(503, code, message);
  }
}
