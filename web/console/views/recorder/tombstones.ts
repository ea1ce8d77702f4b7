import type { Entry, Tombstone } from './types.ts';

/** Tombstones from the purge entries of the review log; `by` and `rack` are members of the entry itself. */
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
        // A purge is logged only after the deletion was verified.
        verified: true as const,
      },
    ];
  });
