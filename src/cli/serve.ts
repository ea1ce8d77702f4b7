import { readSecrets } from '../config/secrets.ts';
import type { Settings } from '../config/toml.ts';
import { Access } from '../planes/access.ts';
import type { Gateway } from '../gateway/open.ts';
import { createApp, envelopesOf } from '../http/app.ts';
import { hostGuard, isLoopback } from '../http/host-guard.ts';
import type { Listening } from '../http/listening.ts';
import { listen } from '../http/listen.ts';
import { controlPlanes, hostPlanes } from '../planes/mount.ts';
import { HttpError } from '../http/error.ts';
import { Resident } from '../planes/resident.ts';
import type { Pages } from '../planes/pages/pages.ts';
import type { Plane } from '../http/route.ts';
import { errorMessage } from '../util/error-message.ts';
import { raceTimeout } from '../util/race-timeout.ts';
import { openAgent, type OpenAgent } from './agent.ts';
import { Store } from '../store/index.ts';
import { openCredentials } from './credentials.ts';
import { databaseUrl, defaultDataDir, openDataDir } from './data-dir.ts';
import { ownSecrets } from './own-secrets.ts';
import { hostKey } from '../signing/host-key.ts';
import { openHostGateway, readHostGateway, withGateway } from './gateway.ts';
import { lockDataDir } from './data-dir-lock.ts';
import { openPages, withPages } from './pages.ts';
import { locateModel } from './model-location.ts';
import { printable } from '../terminal/printable.ts';
import { ModelLoader } from './model-loader.ts';
import { portError } from './port-error.ts';
import { modelWords, readyLine } from './ready-line.ts';
import { DataDirStore } from './store/index.ts';
import { StartError } from './start-error.ts';
import { openWatching } from './watching.ts';
import type { World } from './world.ts';

export interface Host {
  /** Resolves when the model is loaded and the ready line is printed. */
  readonly ready: Promise<void>;
  /** Waits for running requests, then aborts them. Takes at most 4 s, even if the device hangs. */
  readonly stop: () => Promise<void>;
}

const finishMs = 1500;
const abortMs = 500;
/** Minimum length of a caller's credential that is redacted: a shorter one may be an ordinary word in other content. */
const shortestOfCallers = 16;
/** Time limit for closing a model. */
const closeMs = 1500;

/** Opens the ports, loads the model while `/health` answers 503, then prints the ready line. */
export async function startHost(options: Settings, version: string, world: World): Promise<Host> {
  const { stdout, stderr } = world;
  const quiet = options.quiet ?? false;
  const say = (text: string) => {
    if (!quiet) stderr.write(`${printable(text)}\n`);
  };
  const host = options.host ?? '127.0.0.1';
  const controlHost = isLoopback(host) ? host : '127.0.0.1';
  const dataDir = await openDataDir(options.data_dir ?? defaultDataDir(world.env, world.home));
  const lock = lockDataDir(dataDir.path);
  const places = { packageRoot: world.packageRoot, dataDir: dataDir.path };
  const model = options.gpu ? await locateModel(options.model, places) : undefined;
  const draft =
    model && options.draft !== undefined
      ? { location: (await locateModel(options.draft, places)).location, of: model.location }
      : undefined;
  if (!options.gpu && options.draft !== undefined) say('--draft has no effect without --gpu');
  if (!options.gpu && options.model !== undefined) say('--model has no effect without --gpu');
  if (!options.gpu && options.kernels !== undefined) say('--kernels has no effect without --gpu');
  if (!options.gpu && options.swap) say('--swap has no effect without --gpu');

  const onFault = (where: string, error: unknown) =>
    stderr.write(`${where}: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`);
  const secrets = await readSecrets(options, world.env);
  const credentials = await openCredentials(dataDir.path, secrets.bearerToken, (text) =>
    stderr.write(`${text}\n`),
  );
  const database = databaseUrl(options.database, dataDir.path);
  const gatewayConfig = await readHostGateway({
    path: options.gateway_config,
    database,
    env: world.env,
    onNotice: say,
  });
  const key = await hostKey(dataDir.path);
  const own = ownSecrets({
    credentials,
    key,
    secrets,
    gatewayConfig,
    database,
    collector: options.otlp_endpoint,
    env: world.env,
  });
  const records = await openStore(database, dataDir.endpointId, say);
  const opened = new AsyncDisposableStack();
  opened.defer(() => records.close());
  /** Closes everything opened so far if this step fails. */
  const orClose = <T>(opening: Promise<T>): Promise<T> =>
    opening.catch(async (error: unknown) => {
      await opened.disposeAsync();
      throw error;
    });
  const watching = await orClose(
    openWatching({
      settings: options,
      store: records,
      database,
      dataDir: dataDir.path,
      version,
      secrets: own,
      world,
      onFault,
      say,
    }),
  );
  opened.defer(watching.close);
  const { watch, served } = watching;

  const stopping = new AbortController();
  const loader = new ModelLoader({
    options,
    dataDir: dataDir.path,
    world,
    say,
    stopping: stopping.signal,
    observeLab: watching.observeLab,
    draft,
  });
  const store = new DataDirStore({
    world,
    dataDir: dataDir.path,
    inUse: (location) => loader.holds(location),
  });
  const load = async (location: string) => {
    const loaded = await loader.load(location);
    say(`swapped to ${modelWords(loaded.engine)}`);
    return loaded;
  };
  const resident = new Resident(model ? 'loading' : 'none', {
    find: (name) => store.find(name),
    isSame: (stored, location) => store.isSame(stored, location),
    look: (stored) => store.card(stored),
    load: options.swap && model ? load : undefined,
  });
  let controlPort = 0;
  const agent = await orClose(
    openAgent({
      secrets,
      credentials,
      key,
      dataDir,
      store: records,
      watch,
      version,
      resident,
      served,
      onFault,
      say,
      settings: options,
      packageRoot: world.packageRoot,
      reach: { bind: isLoopback(host) ? 'loopback' : 'lan', controlPort: () => controlPort },
    }),
  );
  const { endpointId } = dataDir;
  const { recorder, observe, metrics } = watching;
  const facts = {
    resident,
    store,
    served,
    version,
    endpointId,
    agent,
    recorder,
    observe,
    metrics,
    gateway: true,
  };
  const gateway = await orClose(
    openHostGateway({
      config: gatewayConfig,
      database,
      resident,
      stopping: stopping.signal,
      onFault,
      watch,
      onNotice: say,
      onSecret: (secret) => {
        if (secret.length >= shortestOfCallers) recorder.keepOut(secret);
      },
    }).catch(async (error: unknown) => {
      await agent.host.close();
      throw error;
    }),
  );
  const listeners: Listening[] = [];
  const open = async (
    planes: readonly Plane[],
    beside: { readonly gateway?: typeof gateway; readonly pages?: Pages },
    { address, port, flag }: { address: string; port: number; flag: string },
  ) => {
    const access = new Access({
      ...credentials,
      bind: isLoopback(address) ? 'loopback' : 'lan',
      findPeer: (token) => agent.host.peers.find(token),
    });
    const app = createApp({ planes, access, stopping: stopping.signal, onFault, watch });
    const listener = await listen(
      withPages(withGateway(app, beside.gateway, access), beside.pages, access),
      hostGuard(address, options.allowed_host ?? []),
      { host: address, port },
      { envelopeOf: envelopesOf(planes) },
    ).catch((error: unknown) => {
      throw portError(error, address, port, flag);
    });
    listeners.push(listener);
    return {
      port: listener.port,
      url: `http://${address.includes(':') ? `[${address}]` : address}:${listener.port}`,
    };
  };

  let stopped: Promise<void> | undefined;
  const stop = () =>
    (stopped ??= stopHost(listeners, stopping, {
      agent,
      gateway,
      closeModel: () => loader.close(),
      closeStores: () => opened.disposeAsync(),
      lock,
    }));
  try {
    const { url } = await open(
      hostPlanes(facts),
      { gateway, pages: openPages(world.packageRoot) },
      {
        address: host,
        port: options.port ?? 8080,
        flag: '--port',
      },
    );
    const control =
      options.control_port === undefined
        ? undefined
        : await open(
            controlPlanes(facts),
            {},
            {
              address: controlHost,
              port: options.control_port,
              flag: '--control-port',
            },
          );
    controlPort = control?.port ?? 0;
    const ready = async () => {
      if (model) {
        try {
          const { engine, ...more } = await loader.load(model.location);
          resident.ready(engine, { ...more, location: model.location });
        } catch (error) {
          if (stopped === undefined) throw error;
          return;
        }
        if (model.embedded && !quiet) stdout.write(`${embeddedLimits}\n`);
      }
      await agent.host.resume();
      const { engine } = resident;
      const line = readyLine({ version, url, controlUrl: control?.url, engine, readyMs: world.elapsedMs() });
      if (stopped === undefined) stdout.write(`${line}\n`);
    };
    return { ready: ready(), stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function openStore(
  url: string,
  endpointId: string,
  onNotice: (message: string) => void,
): Promise<Store> {
  try {
    return await Store.open({ url, endpointId, onNotice });
  } catch (error) {
    throw new StartError(errorMessage(error));
  }
}

const embeddedLimits =
  'The embedded model lathe-tiny is a toy: it knows English only, handles few tasks and states wrong answers with confidence ' +
  '(models/README.md). For real work use --model PATH.gguf';

async function stopHost(
  listeners: readonly Listening[],
  stopping: AbortController,
  {
    agent,
    gateway,
    closeModel,
    closeStores,
    lock,
  }: {
    agent: OpenAgent;
    gateway: Gateway;
    closeModel: () => Promise<void>;
    /** Also closes the consumers of the store's events. */
    closeStores: () => Promise<void>;
    lock: { release(): void };
  },
): Promise<void> {
  // Closing the agent plane ends its streams, so that their clients disconnect.
  const stored = agent.host.close();
  const sold = gateway.close(finishMs);
  const finished = Promise.all([stored, sold, ...listeners.map((listener) => listener.close())]);
  await atMost(finished, finishMs);
  stopping.abort(
    new HttpError(503, 'shutting_down', 'The host is shutting down.', { headers: { 'retry-after': '5' } }),
  );
  await atMost(finished, abortMs);
  for (const listener of listeners) listener.cut();
  await Promise.all([closeModel(), closeStores()].map((closing) => atMost(closing, closeMs + 500)));
  lock.release();
}

const atMost = (work: Promise<unknown>, ms: number): Promise<unknown> =>
  raceTimeout(
    work.catch(() => undefined),
    ms,
  );
