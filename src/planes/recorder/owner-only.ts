import { HttpError } from '../../http/error.ts';
import type { Route } from '../../http/route.ts';

/** A peer reads and writes what it was granted; the rules and the review are for whoever has the host's own bearer. */
export const ownerOnly: NonNullable<Route['before']> = ({ by }) => {
  if (!by.startsWith('peer:')) return;
  throw new HttpError(
    403,
    'owner_only',
    "A peer's token does not do here: rules, grants, the review and purges take the host's own bearer.",
  );
};
