import { join, resolve } from 'node:path';
import { resolveSecrets } from '../config/secrets.ts';
import type { Settings } from '../config/toml.ts';
import { Access } from '../planes/access.ts';
import { ChangeBus } from '../changes/change-bus.ts';
import { followOtherHosts } from '../changes/other-hosts.ts';
import { announceLab, announceModels, announceRacks } from '../changes/services.ts';
import { announceRows } from '../changes/store-changes.ts';
import { watchResident } from '../changes/watch-resident.ts';
import type { Gateway } from '../gateway/open.ts';
import { createApp, createEnvelopeLookup } from '../http/app.ts';
import { BrowserSessions } from '../http/browser-sessions.ts';
import { Cors } from '../http/cors.ts';
import { hostGuard, isLoopback } from '../http/host-guard.ts';
import type { BoundServer } from '../http/listening.ts';
import { listen } from '../http/listen.ts';
import { Sockets } from '../http/sockets.ts';
import { createControlPlanes, createHostPlanes } from '../planes/mount.ts';
import { HttpError } from '../http/error.ts';
import { ModelAliases } from '../planes/model-aliases.ts';
import type { StoredModel } from '../planes/model-store.ts';
import type { LoadParams } from '../planes/model-pool.ts';
import { type LoadedModel, Resident } from '../planes/resident.ts';
import type { Pages } from '../planes/pages/pages.ts';
import type { Plane } from '../http/route.ts';
import { errorMessage } from '../util/error-message.ts';
import { raceTimeout } from '../util/race-timeout.ts';
import { openAgent, type OpenAgent } from './agent.ts';
import { resolveAllowedOrigins } from './allowed-origins.ts';
import { StoredKernels } from '../feed/index.ts';
import { Store } from '../store/index.ts';
import { openCredentials } from './credentials.ts';
import { databaseUrl, defaultDataDir, openDataDir } from './data-dir.ts';
import { configuredSecrets } from './configured-secrets.ts';
import { loadHostKey } from '../signing/host-key.ts';
import { listenForGatewayOperator, readGatewayAdminTokens } from './gateway-operator.ts';
import { openHostGateway, readHostGateway, withGateway } from './gateway.ts';
import { lockDataDir } from './data-dir-lock.ts';
import { openPages, withPages } from './pages.ts';
import { checkAliases } from './model-aliases.ts';
import { webBuildFiles } from '../platform/web-build.ts';
import { locateModel } from './model-location.ts';
import { printable } from '../terminal/printable.ts';
import { ModelLoader } from './model-loader.ts';
import { modelMemoryBytes } from './model-memory.ts';
import { portError } from './port-error.ts';
import { describeModel, readyLine } from './ready-line.ts';
import { DataDirStore } from './store/data-dir-store.ts';
import { StartError } from './start-error.ts';
import { openObservability } from './observability.ts';
import { combineObservers } from '../tracing/index.ts';
import { openResponses } from './responses.ts';
import { openTlsFiles, type TlsFiles } from './tls-files.ts';
import type { CliContext } from './cli-context.ts';

export interface Host {
  /** Resolves when the model is loaded and the ready line is printed. */
  readonly ready: Promise<void>;
  /** Waits for running requests, then aborts them. Takes at most 4 s, even if the device hangs. */
  readonly stop: () => Promise<void>;
}

const drainTimeoutMs = 1500;
const abortTimeoutMs = 500;
/** Minimum length of a caller's credential that is redacted: a shorter one may be an ordinary word in other content. */
const minCallerSecretLength = 16;
/** Time limit for closing a model. */
const modelCloseTimeoutMs = 1500;

/** Opens the ports, loads the model while `/health` answers 503, then prints the ready line. */
export async function startHost(options: Settings, version: string, cli: CliContext): Promise<Host> {
  const { stdout, stderr } = cli;
  const quiet = options.quiet ?? false;
  const onNotice = (text: string) => {
    if (!quiet) stderr.write(`${printable(text)}\n`);
  };
  const host = options.host ?? '127.0.0.1';
  const allowedOrigins = resolveAllowedOrigins(options, cli.env, host);
  if (!options.allowed_origin && allowedOrigins.length > 0)
    onNotice(`OLLAMA_ORIGINS lets pages of these origins call the host: ${allowedOrigins.join(', ')}`);
  const tls = await openTlsFiles(options, onNotice);
  const adminTokens = await readGatewayAdminTokens(options, cli.env);
  const controlHost = isLoopback(host) ? host : '127.0.0.1';
  const dataDir = await openDataDir(options.data_dir ?? defaultDataDir(cli.env, cli.home));
  const lock = lockDataDir(dataDir.path);
  const directories = { packageRoot: cli.packageRoot, dataDir: dataDir.path };
  const model = options.gpu ? await locateModel(options.model, directories) : undefined;
  const draft =
    model && options.draft !== undefined
      ? { location: (await locateModel(options.draft, directories)).location, of: model.location }
      : undefined;
  const embeddingModel =
    model && options.embedding_model !== undefined
      ? await locateModel(options.embedding_model, directories)
      : undefined;
  if (embeddingModel && embeddingModel.location === model?.location)
    throw new StartError(
      '--embedding-model names the model of --model, which embeds without it; leave it out.',
    );
  if (!options.gpu && options.embedding_model !== undefined)
    onNotice('--embedding-model has no effect without --gpu');
  if (!options.gpu && options.draft !== undefined) onNotice('--draft has no effect without --gpu');
  if (!options.gpu && options.model !== undefined) onNotice('--model has no effect without --gpu');
  if (!options.gpu && options.kernels !== undefined) onNotice('--kernels has no effect without --gpu');
  if (!options.gpu && options.alias) onNotice('--alias has no effect without --gpu');
  if (!options.gpu && options.swap) onNotice('--swap has no effect without --gpu');
  if (!options.gpu && options.resident !== undefined) onNotice('--resident has no effect without --gpu');
  if (!options.gpu && options.resident_bytes !== undefined)
    onNotice('--resident-bytes has no effect without --gpu');

  const onFault = (where: string, error: unknown) =>
    stderr.write(`${where}: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`);
  const secrets = await resolveSecrets(options, cli.env);
  const credentials = await openCredentials(dataDir.path, secrets.bearerToken, (text) =>
    stderr.write(`${text}\n`),
  );
  const tokenFile = resolve(options.bearer_token_file ?? join(dataDir.path, 'bearer.token'));
  const database = databaseUrl(options.database, dataDir.path);
  const gatewayFile = { path: options.gateway_config, database, env: cli.env };
  const gatewayConfig = await readHostGateway({ ...gatewayFile, onNotice });
  const key = await loadHostKey(dataDir.path);
  const ownSecretTexts = configuredSecrets({
    credentials,
    key,
    secrets,
    gatewayConfig,
    database,
    collector: options.otlp_endpoint,
    env: cli.env,
  });
  const changes = new ChangeBus();
  const records = await openStore(database, dataDir.endpointId, { onNotice, changes });
  const resources = new AsyncDisposableStack();
  resources.defer(() => records.close());
  /** Closes everything opened so far if this step fails. */
  const closeOnFailure = <T>(step: Promise<T>): Promise<T> =>
    step.catch(async (error: unknown) => {
      await resources.disposeAsync();
      throw error;
    });
  const observability = await closeOnFailure(
    openObservability({
      settings: options,
      store: records,
      database,
      dataDir: dataDir.path,
      version,
      secrets: ownSecretTexts,
      cli,
      onFault,
      onNotice,
    }),
  );
  resources.defer(observability.close);
  const { watch, served } = observability;

  const stopping = new AbortController();
  const responses = await closeOnFailure(
    openResponses({
      settings: options,
      store: records,
      tracer: watch,
      stopSignal: stopping.signal,
      onNotice,
      onFault,
    }),
  );
  resources.defer(responses.close);
  const loader = new ModelLoader({
    options,
    dataDir: dataDir.path,
    cli,
    onNotice,
    stopping: stopping.signal,
    observeLab: (lab, id) => announceLab(observability.observeLab(lab, id), changes),
    history: new StoredKernels(records),
    observeRequests: observability.requests.observe,
    draft,
  });
  const store = announceModels(
    new DataDirStore({
      cli,
      dataDir: dataDir.path,
      roleOf: (location) => loader.roleOf(location),
    }),
    changes,
  );
  const places = { count: options.resident ?? 1, canReplaceMain: options.swap ?? false };
  const canLoad = model !== undefined && (places.canReplaceMain || places.count > 1);
  const aliases = new ModelAliases(model ? options.alias : []);
  if (model && options.alias)
    await closeOnFailure(checkAliases(options.alias, { store, location: model.location, canLoad }));
  const load = async (location: string, params: LoadParams): Promise<LoadedModel> => {
    const loaded = await loader.load(location, params);
    onNotice(`${params.isMain ? 'swapped to' : 'loaded'} ${describeModel(loaded.engine)}`);
    return {
      ...loaded,
      close: async () => {
        await loaded.close?.();
        if (!params.isMain) onNotice(`unloaded model ${loaded.engine.model.id}`);
      },
    };
  };
  const others = {
    find: (name: string) => store.find(name),
    isNameOfAnother: (name: string, location: string) => store.isNameOfAnother(name, location),
    isSame: (stored: StoredModel, location: string) => store.isSame(stored, location),
    inspect: (stored: StoredModel) => store.readCard(stored),
    load: canLoad ? load : undefined,
    places,
  };
  const resident = new Resident(model ? 'loading' : 'none', others, aliases);
  let controlPort = 0;
  let gatewayAdminPort: number | undefined;
  const agent = await closeOnFailure(
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
      onNotice,
      settings: options,
      packageRoot: cli.packageRoot,
      reach: { bind: isLoopback(host) ? 'loopback' : 'lan', controlPort: () => controlPort },
    }),
  );
  const { endpointId } = dataDir;
  const sessions = new BrowserSessions({ name: 'session', isTls: tls !== undefined });
  const { observe, metrics, requests } = observability;
  const recorder = announceRacks(observability.recorder, changes);
  watchResident({ resident, served, bus: changes });
  if (!database.startsWith('sqlite:')) followOtherHosts({ events: agent.host.events, bus: changes, onFault });
  const draining = new AbortController();
  const facts = {
    resident,
    store,
    modelMemoryBytes: () => modelMemoryBytes(resident.engine, options.resident_bytes),
    served,
    version,
    endpointId,
    sessions,
    changes,
    agent,
    recorder,
    observe,
    metrics,
    responses: responses.store,
    background: responses.background,
    requests,
    draining: draining.signal,
    gateway: true,
    gatewayAdminPort: () => gatewayAdminPort,
    truncatesChats: !(options.no_truncate ?? false),
  };
  const gateway = await closeOnFailure(
    openHostGateway({
      config: gatewayConfig,
      readConfig:
        gatewayFile.path === undefined
          ? undefined
          : async () => {
              const next = await readHostGateway({ ...gatewayFile, onNotice: () => undefined });
              for (const { apiKey } of next.providers) if (apiKey !== undefined) recorder.addSecret(apiKey);
              return next;
            },
      database,
      resident,
      stopSignal: stopping.signal,
      onFault,
      watch,
      observer: combineObservers([metrics.gateway, observability.gatewayObserver]),
      onNotice: onNotice,
      onSecret: (secret) => {
        if (secret.length >= minCallerSecretLength) recorder.addSecret(secret);
      },
    }).catch(async (error: unknown) => {
      await agent.host.close();
      throw error;
    }),
  );
  metrics.gatewayState = gateway.state;
  const listeners: BoundServer[] = [];
  const openListener = async (
    planes: readonly Plane[],
    extras: { readonly gateway?: typeof gateway; readonly pages?: Pages; readonly cors?: Cors },
    {
      address,
      port,
      flag,
      tlsFiles,
    }: { address: string; port: number; flag: string; tlsFiles?: TlsFiles | undefined },
  ) => {
    const access = new Access({
      ...credentials,
      bind: isLoopback(address) ? 'loopback' : 'lan',
      findPeer: (token) => agent.host.peers.find(token),
      sessions: extras.pages && sessions,
    });
    const { cors } = extras;
    const appOptions = { planes, access, stopSignal: stopping.signal, onFault, watch, cors };
    const app = createApp(appOptions);
    const listener = await listen(
      withPages(withGateway(app, extras.gateway, access), extras.pages, {
        access,
        tokenFile,
      }),
      hostGuard(address, options.allowed_host ?? []),
      { host: address, port },
      {
        envelopeOf: createEnvelopeLookup(planes),
        upgrades: new Sockets(appOptions),
        cors,
        tls: tlsFiles?.current,
      },
    ).catch((error: unknown) => {
      throw portError(error, address, port, flag);
    });
    listeners.push(listener);
    if (tlsFiles) resources.defer(tlsFiles.watch((pair) => listener.setCertificate(pair)));
    return {
      port: listener.port,
      url: `${tlsFiles ? 'https' : 'http'}://${address.includes(':') ? `[${address}]` : address}:${listener.port}`,
    };
  };

  let stopped: Promise<void> | undefined;
  const stop = () =>
    (stopped ??= stopHost(
      listeners,
      { draining, stopping },
      {
        agent,
        gateway,
        closeModel: () => loader.close(),
        closeStores: () => resources.disposeAsync(),
        lock,
      },
    ));
  try {
    const planes = createHostPlanes(facts);
    const { url } = await openListener(
      planes,
      {
        gateway,
        pages: openPages(cli.packageRoot),
        cors: new Cors({ allowedOrigins, planes, onRefused: onNotice }),
      },
      {
        address: host,
        port: options.port ?? 8080,
        flag: '--port',
        tlsFiles: tls,
      },
    );
    const control =
      options.control_port === undefined
        ? undefined
        : await openListener(
            createControlPlanes(facts),
            {},
            {
              address: controlHost,
              port: options.control_port,
              flag: '--control-port',
            },
          );
    controlPort = control?.port ?? 0;
    if (options.gateway_admin_port !== undefined) {
      const operator = await listenForGatewayOperator(options.gateway_admin_port, {
        gateway,
        metrics: metrics.gateway,
        version,
        tokens: adminTokens,
        pages: webBuildFiles(cli.packageRoot),
        onFault,
      });
      listeners.push(operator);
      const at = `http://127.0.0.1:${operator.port}`;
      // Without a token nobody can sign in, so the console does not lead there.
      if (adminTokens) gatewayAdminPort = operator.port;
      onNotice(
        adminTokens
          ? `gateway: the operator's page is ${at}/`
          : `gateway: metrics are on ${at}/metrics; the operator's page needs a token: --gateway-admin-token-file`,
      );
    }
    const ready = async () => {
      if (model) {
        try {
          if (embeddingModel) {
            const { location } = embeddingModel;
            const loaded = await loader.loadEmbeddingModel(location);
            resident.setEmbeddingModel(loaded, location);
            onNotice(`embeddings: ${describeModel(loaded.engine)}`);
          }
          const params = { isMain: true, keepsContext: false, openPlaces: places.count };
          const { engine, ...more } = await loader.load(model.location, params);
          const { id } = engine.model;
          if (aliases.has(id))
            throw new StartError(`--alias ${id}: this is the resident model's own id; choose another name.`);
          resident.setReady(engine, { ...more, location: model.location });
        } catch (error) {
          if (stopped === undefined) throw error;
          return;
        }
        if (model.embedded && !quiet) stdout.write(`${embeddedModelNotice}\n`);
      }
      await agent.host.resume();
      const { engine } = resident;
      const line = readyLine({ version, url, controlUrl: control?.url, engine, readyMs: cli.elapsedMs() });
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
  { onNotice, changes }: { onNotice: (message: string) => void; changes: ChangeBus },
): Promise<Store> {
  try {
    return await Store.open({
      url,
      endpointId,
      onNotice,
      onWritten: (rows) => announceRows(changes, rows),
    });
  } catch (error) {
    throw new StartError(errorMessage(error));
  }
}

const embeddedModelNotice =
  'The embedded model lathe-tiny is a toy: it knows English only, handles few tasks and states wrong answers with confidence ' +
  '(models/README.md). For real work use --model PATH.gguf';

/** @param listeners the main listener, and the control socket where there is one */
async function stopHost(
  [main, control]: readonly BoundServer[],
  { draining, stopping }: { draining: AbortController; stopping: AbortController },
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
  draining.abort();
  // Closing the agent plane ends its streams, so that their clients disconnect.
  const agentClosed = agent.host.close();
  const gatewayClosed = gateway.close(drainTimeoutMs);
  const drained = Promise.all([agentClosed, gatewayClosed, main?.close()]);
  await settleWithin(drained, drainTimeoutMs);
  stopping.abort(
    new HttpError(503, 'shutting_down', 'The host is shutting down.', { headers: { 'retry-after': '5' } }),
  );
  // The control socket answers until here, so that probes and scrapers see a host that drains.
  await settleWithin(Promise.all([drained, control?.close()]), abortTimeoutMs);
  for (const listener of [main, control]) listener?.destroyConnections();
  await Promise.all(
    [closeModel(), closeStores()].map((closing) => settleWithin(closing, modelCloseTimeoutMs + 500)),
  );
  lock.release();
}

const settleWithin = (promise: Promise<unknown>, ms: number): Promise<unknown> =>
  raceTimeout(
    promise.catch(() => undefined),
    ms,
  );
