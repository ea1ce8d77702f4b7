import type { Entry, Tombstone } from './types.ts';

/** The tombstones in the review, which keeps all but what `by`, `rack` and the verdict tell there already. */
export const tombstonesOf = (entries: readonly Entry[]): Tombstone[] =>
  entries.flatMap(({ act, by, rack, at, details }) => {
    const { id, events, bytes, from, to, at: removedAt } = details as Partial<Tombstone>;
    if (act !== 'purge' || rack === null || id === undefined) return [];
    return [
      {
        id,
        rack,
        at: removedAt ?? at,
        by,
        events: events ?? 0,
        bytes: bytes ?? 0,
        from: from ?? null,
        to: to ?? null,
        // A purge is only written down when it was looked that nothing is left.
        verified: true as const,
      },
    ];
  });
