import { HttpError } from '../../http/error.ts';
import type { Route } from '../../http/route.ts';

/**
 * Refuses peer tokens. A peer may read and write what it was granted; policies and the review require the host's own
 * bearer token.
 */
export const refusePeers: NonNullable<Route['beforeBody']> = ({ by }) => {
  if (!by.startsWith('peer:')) return;
  throw new HttpError(
    403,
    'owner_only',
    "This needs the host's own bearer token; a peer's token cannot access policies, grants, the review or purges.",
  );
};
