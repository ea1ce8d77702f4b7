import type { Authenticator, CredentialStore, Limiter } from '../access/types.ts';
import type { Catalog } from '../catalog/catalog.ts';
import type { Limits } from '../config/types.ts';
import type { Ledger } from '../ledger/types.ts';
import type { Watch } from '../../watch/index.ts';
import type { Router, Transport } from '../upstream/types.ts';
import type { BodyShares } from './body-shares.ts';
import type { Drains } from './drains.ts';
import type { InFlight } from './in-flight.ts';

/** What requests are served with. */
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
  /** Hears of requests that cost money. */
  readonly watch: Watch;
  /** How long a caller may take nothing of a stream that has more for it, in ms. */
  readonly readerMs: number;
  /** Rejects while requests cannot be served. */
  readonly ready: () => Promise<void>;
  /** Hears of faults of ours, with the request's id. */
  readonly onFault: (requestId: string, error: unknown) => void;
}
