import { loopbackAccess } from '../../src/planes/access.ts';
import { createApp } from '../../src/http/app.ts';
import { listen } from '../../src/http/listen.ts';
import type { StoredModel } from '../../src/planes/model-store.ts';
import { ModelAliases } from '../../src/planes/model-aliases.ts';
import { createHostPlanes } from '../../src/planes/mount.ts';
import { Resident } from '../../src/planes/resident.ts';
import { ServedCounters } from '../../src/planes/served-counters.ts';
import { Tracer } from '../../src/tracing/index.ts';
import { hostGuard } from '../../src/http/host-guard.ts';
import { freshDataDir } from './host.ts';
import { storeAt } from './model-store.ts';
import { EngineError } from '../../src/engine/types.ts';
import { type Script, ScriptedEngine } from './scripted-engine.ts';
import { createSpanRecorder } from './span-recorder.ts';

export interface Swapping {
  /** What each model answers; its name is its id, unless `ids` has another one, and `/name` its place. */
  readonly models: Readonly<Record<string, Script>>;
  /** The ids of models, by name. */
  readonly ids?: Readonly<Record<string, string>>;
  readonly swap?: boolean;
  /** How many models stay loaded. */
  readonly resident?: number;
  /** Bytes that all models may take together. */
  readonly memoryBytes?: number;
  /** Further names, with what they stand for. */
  readonly aliases?: Readonly<Record<string, string>>;
  /** Name of the model that stays loaded for embeddings. */
  readonly embeddingModel?: string;
  readonly loadMs?: number;
  /** Awaited by each load: holds it until the test says so. */
  readonly hold?: (location: string) => Promise<void> | undefined;
  /** Loads of this place fail while it is true. */
  readonly broken?: (location: string) => boolean;
}

/** A host over scripted engines that changes its model; the first of `models` is resident. */
export async function swappingHost({
  models,
  ids = {},
  resident: count = 1,
  swap = count === 1,
  memoryBytes = Number.POSITIVE_INFINITY,
  aliases = {},
  embeddingModel,
  loadMs = 5,
  hold,
  broken = () => false,
}: Swapping) {
  const loads: string[] = [];
  const engines: ScriptedEngine[] = [];
  const overlaps: string[] = [];
  const open = new Set<ScriptedEngine>();
  const usedBytes = () => [...open].reduce((sum, engine) => sum + engine.stats().memoryBytes, 0);
  const load = async (location: string) => {
    loads.push(location);
    await new Promise((resolve) => setTimeout(resolve, loadMs));
    await hold?.(location);
    if (broken(location)) throw new Error(`${location} is broken`);
    const id = location.slice(1);
    const engine = new ScriptedEngine({ answer: () => [id], ...models[id] });
    const missingBytes = usedBytes() + engine.stats().memoryBytes - memoryBytes;
    if (missingBytes > 0)
      throw new EngineError('model_too_large', `${missingBytes} bytes are missing`, { missingBytes });
    Object.assign(engine.model, { id: ids[id] ?? id });
    engines.push(engine);
    open.add(engine);
    const close = async () => {
      if (engine.running > 0) overlaps.push(`${engine.model.id} was closed while it answered`);
      open.delete(engine);
      await engine.close();
    };
    return { engine, close };
  };
  const store = storeAt(freshDataDir());
  /** The names that were looked for in the store. */
  const searches: string[] = [];
  const find = async (requested: string): Promise<StoredModel | undefined> => {
    searches.push(requested);
    const name =
      requested in models ? requested : Object.keys(ids).find((stored) => ids[stored] === requested);
    return name === undefined ? await store.find(requested) : { name, location: `/${name}` };
  };
  /** The models that requests looked at, in order: who asks for another one waits from then on. */
  const looked: string[] = [];
  const others = {
    find,
    isNameOfAnother: async (name: string, location: string) => name in models && location !== `/${name}`,
    isSame: async (model: StoredModel, location: string) => model.location === location,
    inspect: async ({ name }: StoredModel) => {
      looked.push(name);
      return {
        problem: undefined,
        kind: models[name]?.embeds === undefined ? ('generate' as const) : ('embed' as const),
      };
    },
    load: swap || count > 1 ? load : undefined,
    places: { count, canReplaceMain: swap },
  };
  const names = new ModelAliases(Object.entries(aliases).map(([name, target]) => ({ name, target })));
  const resident = new Resident('loading', others, names);
  const [first = ''] = Object.keys(models);
  const { engine, close: closeFirst } = await load(`/${first}`);
  resident.setReady(engine, { location: `/${first}`, close: closeFirst });
  loads.length = 0;
  const embedder = embeddingModel === undefined ? undefined : new ScriptedEngine(models[embeddingModel]);
  if (embedder) {
    Object.assign(embedder.model, { id: `${embeddingModel}-id` });
    resident.setEmbeddingModel({ engine: embedder }, `/${embeddingModel}`);
  }
  const stopping = new AbortController();
  const served = new ServedCounters();
  const { sink, ended } = createSpanRecorder();
  const planes = createHostPlanes({ resident, store, served, version: '0.0.0', endpointId: 'e' });
  const app = createApp({
    planes,
    access: loopbackAccess,
    stopSignal: stopping.signal,
    onFault: (_, error) => faults.push(error),
    watch: new Tracer([served, sink]),
  });
  const faults: unknown[] = [];
  const listener = await listen(app, hostGuard('127.0.0.1', []), { host: '127.0.0.1', port: 0 });
  const url = `http://127.0.0.1:${listener.port}`;
  return {
    url,
    resident,
    loads,
    searches,
    looked,
    /** Requests that ended, with any outcome. */
    ended,
    engines,
    embedder,
    overlaps,
    faults,
    get: (path: string) => fetch(url + path),
    post: (path: string, body: unknown, init: RequestInit = {}) =>
      fetch(url + path, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(body),
        ...init,
      }),
    async close() {
      listener.destroyConnections();
      await listener.close();
    },
  };
}
