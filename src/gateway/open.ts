import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { sql } from 'kysely';
import { createAuthenticator } from './access/authenticator.ts';
import { Credentials } from './access/credentials.ts';
import { createMemoryLimiter } from './access/memory-limiter.ts';
import { SharedLimiter } from './access/shared-limiter.ts';
import type { Limiter } from './access/types.ts';
import { noticeMembers, noticeText } from './budgets/notices.ts';
import { clearCache } from './cache/clear-cache.ts';
import { BudgetNotifier } from './budgets/notifier.ts';
import { ResponseCache } from './cache/response-cache.ts';
import { Catalog } from './catalog/catalog.ts';
import type { Model } from './catalog/types.ts';
import { ConfigVersions } from './config/config-versions.ts';
import { LiveConfig } from './config/live-config.ts';
import type { GatewayConfig } from './config/types.ts';
import { ChangeLog } from './ledger/change-log.ts';
import { openLedger } from './ledger/index.ts';
import type { Ledger } from './ledger/types.ts';
import { createGatewayApp } from './serve/app.ts';
import { BodyMemoryLimiter } from './serve/body-memory-limiter.ts';
import { ConfigReloader, type ReloadResult } from './serve/config-reloader.ts';
import { UpstreamDrains } from './serve/upstream-drains.ts';
import { InFlight, stoppingError } from './serve/in-flight.ts';
import type { GatewayServices } from './serve/services.ts';
import type { Backend } from '../wires/core/backend.ts';
import {
  type GatewayObserver,
  type GatewayState,
  noopTracer,
  type NoticeHandler,
  type Tracer,
} from '../tracing/index.ts';
import { GatewayStore } from './store/index.ts';
import type { DeploymentHealth } from './upstream/deployment-state.ts';
import { DisabledDeployments } from './upstream/disabled-deployments.ts';
import { UpstreamRouter } from './upstream/router.ts';
import { TagLimiter } from './usage/tags.ts';
import { type TransportLimits, UndiciTransport } from './upstream/transport.ts';
import { vettedStatus } from './upstream/vetted-status.ts';

/** Default of `stallTimeoutMs`: equal to the idle limit of a provider's stream. */
const defaultStallTimeoutMs = 120_000;

export interface GatewaySetup {
  readonly config: GatewayConfig;
  /** Reads the configuration again; undefined: it stays. Rejects with `UsageError` with every fault. */
  readonly readConfig?: () => Promise<GatewayConfig>;
  /** `sqlite:PATH` or `postgres://...`. */
  readonly database: string;
  /** The resident model of this process, as the provider `local`. */
  readonly local?: { readonly backend: Backend; readonly models: () => readonly Model[] };
  /** Limits of upstream requests; the rest keep their defaults. */
  readonly upstreamLimits?: Partial<TransportLimits>;
  /** How long a caller may leave a stream unread while more is ready, in ms. */
  readonly stallTimeoutMs?: number;
  /** Receives a span for each request that costs money. */
  readonly tracer?: Tracer;
  /** Is told about attempts, breakers and transactions of the ledger. */
  readonly observer?: GatewayObserver;
  /** Called with each decrypted caller credential, so that it can be redacted from recordings. */
  readonly onSecret?: (secret: string) => void;
  /** Called for internal errors; `where` is a request id, or the name of a part of the gateway. */
  readonly onFault: (where: string, error: unknown) => void;
  /** Called with messages for the operator. */
  readonly onNotice: NoticeHandler;
}

export interface Gateway {
  readonly app: ReturnType<typeof createGatewayApp>;
  readonly state: () => GatewayState;
  /** Rejects while requests cannot be served. */
  readonly checkReady: () => Promise<void>;
  /** For the operator. */
  readonly admin: {
    readonly ledger: Ledger;
    /** The configuration in force. */
    readonly config: () => GatewayConfig;
    /** The catalog. */
    readonly models: () => readonly Model[];
    /** What is known about an operator's deployment; undefined: it was not asked since the start. */
    readonly healthOf: (model: Model) => DeploymentHealth | undefined;
    readonly disabled: DisabledDeployments;
    /** The log of changes, for events that change nothing in the database. */
    readonly changeLog: ChangeLog;
    /** Removes stored answers. @param accountId undefined: of all accounts @returns how many */
    readonly clearCache: (accountId: string | undefined) => Promise<number>;
  };
  /** Reads the configuration again and replaces it at once, or not at all; undefined where it stays. */
  readonly reload?: () => Promise<ReloadResult>;
  /**
   * Gives running requests `graceMs` to finish, then aborts and settles them and closes the database. The listener must
   * be closed first.
   */
  close(graceMs: number): Promise<void>;
}

/** Opens the database and assembles the gateway. @param basePath path prefix when it is mounted in a host */
export async function openGateway(setup: GatewaySetup, basePath = ''): Promise<Gateway> {
  const { local, upstreamLimits, readConfig, onFault, onNotice } = setup;
  const live = new LiveConfig(setup.config);
  const { byok, limits } = live;
  const store = await GatewayStore.open({
    url: setup.database,
    replicaId: `gateway-${randomUUID()}`,
    onNotice,
  });
  try {
    const { observer = {} } = setup;
    const notifier = new BudgetNotifier({ store, webhook: setup.config.webhook, onNotice });
    const ledger = await openLedger({
      store,
      onFault: onNotice,
      onCommit: observer.onCommit,
      onBudgetNotice(notice) {
        onNotice(noticeText(notice), noticeMembers(notice));
        notifier.wake();
      },
    });
    const transport = new UndiciTransport({
      byok,
      ...(local ? { local: local.backend } : {}),
      ...(upstreamLimits ? { limits: upstreamLimits } : {}),
    });
    const credentials = new Credentials({
      store,
      byok,
      masterKeys: setup.config.masterKeys,
      probe: (url, options) => vettedStatus(url, options),
      onSecret: setup.onSecret,
    });
    if (setup.onSecret) await credentials.reportSecrets();
    const limiter: Limiter = limits.shared
      ? new SharedLimiter({ store, limits, onFault: (error) => onFault('limits', error) })
      : createMemoryLimiter(limits);
    const inFlight = new InFlight();
    const changeLog = new ChangeLog(store, `gateway@${hostname()}`);
    const disabled = new DisabledDeployments({
      store,
      log: changeLog,
      onFault: (error) => onFault('disabled deployments', error),
    });
    const router = new UpstreamRouter({
      limits,
      isDisabled: (provider, model) => disabled.has(provider, model),
      ...(observer.onBreaker ? { onBreaker: observer.onBreaker } : {}),
    });
    const catalog = new Catalog(setup.config, local?.models);
    const cache = new ResponseCache({
      store,
      bounds: () => live.current.cache,
      onFault: (error) => onFault('cache', error),
    });
    const checkReady = async () => {
      if (inFlight.isDraining) throw stoppingError();
      await store.read((db) => sql`select 1`.execute(db));
    };
    const services: GatewayServices = {
      catalog,
      ledger,
      cache,
      authenticator: createAuthenticator({ ledger }),
      limiter,
      credentials,
      transport,
      router,
      limits,
      hooks: () => live.current.hooks ?? [],
      servesMessagesOfAll: () => live.current.messagesForEveryModel ?? false,
      tags: new TagLimiter(),
      bodyMemory: new BodyMemoryLimiter(limits.maxBodyBytes),
      inFlight,
      upstreamDrains: new UpstreamDrains(),
      tracer: setup.tracer ?? noopTracer,
      stallTimeoutMs: setup.stallTimeoutMs ?? defaultStallTimeoutMs,
      checkReady,
      observer,
      onFault,
    };
    const reloader =
      readConfig &&
      new ConfigReloader({
        live,
        versions: new ConfigVersions(store),
        read: readConfig,
        onReplaced(next) {
          catalog.replace(next);
          transport.retainPools(next.providers);
          router.retain(next.models);
        },
        onNotice,
        changeLog,
      });
    await disabled.start();
    await reloader?.start();
    notifier.start();
    cache.start();
    return {
      app: createGatewayApp(services, basePath),
      state: () => ({
        requestsInFlight: inFlight.count,
        breakers: router.breakers(),
        ...(reloader ? { config: reloader.state } : {}),
        ...ledger.state(),
      }),
      checkReady,
      admin: {
        ledger,
        config: () => live.current,
        models: () => catalog.list(),
        healthOf: (model) => router.healthOf(model),
        disabled,
        changeLog,
        clearCache: (accountId) => clearCache({ store, changeLog }, accountId),
      },
      ...(reloader ? { reload: () => reloader.reload() } : {}),
      async close(graceMs) {
        await reloader?.stop();
        await disabled.stop();
        await inFlight.drain(graceMs);
        if (limiter instanceof SharedLimiter) await limiter.close();
        await transport.close();
        await notifier.close();
        await cache.close();
        await ledger.close();
        await store.close();
      },
    };
  } catch (error) {
    await store.close();
    throw error;
  }
}
