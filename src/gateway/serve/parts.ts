import type { Authenticator, CredentialStore, Limiter } from '../access/types.ts';
import type { Catalog } from '../catalog/catalog.ts';
import type { Limits } from '../config/types.ts';
import type { Ledger } from '../ledger/types.ts';
import type { Watch } from '../../watch/index.ts';
import type { Router, Transport } from '../upstream/types.ts';
import type { BodyShares } from './body-shares.ts';
import type { Drains } from './drains.ts';
import type { InFlight } from './in-flight.ts';

/** The services that request handlers use. */
export interface GatewayParts {
  readonly catalog: Catalog;
  readonly ledger: Ledger;
  readonly authenticator: Authenticator;
  readonly limiter: Limiter;
  readonly credentials: CredentialStore;
  readonly transport: Transport;
  readonly router: Router;
  readonly limits: Limits;
  readonly bodies: BodyShares;
  readonly inFlight: InFlight;
  readonly drains: Drains;
  /** Receives a span for each request that costs money. */
  readonly watch: Watch;
  /** How long a caller may leave a stream unread while more is ready, in ms. */
  readonly readerMs: number;
  /** Readiness check: rejects while requests cannot be served. */
  readonly ready: () => Promise<void>;
  /** Called for internal errors, with the request id. */
  readonly onFault: (requestId: string, error: unknown) => void;
}
