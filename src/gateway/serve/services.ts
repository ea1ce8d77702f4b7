import type { Authenticator, CredentialStore, Limiter } from '../access/types.ts';
import type { ResponseCache } from '../cache/response-cache.ts';
import type { Catalog } from '../catalog/catalog.ts';
import type { Hook } from '../hooks/types.ts';
import type { Limits } from '../config/types.ts';
import type { Ledger } from '../ledger/types.ts';
import type { GatewayObserver, Tracer } from '../../tracing/index.ts';
import type { Router, Transport } from '../upstream/types.ts';
import type { BodyMemoryLimiter } from './body-memory-limiter.ts';
import type { UpstreamDrains } from './upstream-drains.ts';
import type { InFlight } from './in-flight.ts';
import type { TagLimiter } from '../usage/tags.ts';

/** The services that request handlers use. */
export interface GatewayServices {
  readonly catalog: Catalog;
  readonly ledger: Ledger;
  readonly cache: ResponseCache;
  readonly authenticator: Authenticator;
  readonly limiter: Limiter;
  readonly credentials: CredentialStore;
  readonly transport: Transport;
  readonly router: Router;
  readonly limits: Limits;
  /** The configured hooks; a request keeps those that it began with. */
  readonly hooks: () => readonly Hook[];
  /** Whether /v1/messages serves models of all providers now. */
  readonly servesMessagesOfAll: () => boolean;
  readonly tags: TagLimiter;
  readonly bodyMemory: BodyMemoryLimiter;
  readonly inFlight: InFlight;
  readonly upstreamDrains: UpstreamDrains;
  /** Receives a span for each request that costs money. */
  readonly tracer: Tracer;
  readonly observer: GatewayObserver;
  /** How long a caller may leave a stream unread while more is ready, in ms. */
  readonly stallTimeoutMs: number;
  /** Readiness check: rejects while requests cannot be served. */
  readonly checkReady: () => Promise<void>;
  /** Called for internal errors, with the request id. */
  readonly onFault: (requestId: string, error: unknown) => void;
}
