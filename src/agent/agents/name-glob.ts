import { globMatches } from '../tools/glob.ts';

export { globMatches };

/** What names of tools may be made of, and `*` with it. */
export const globForm = /^[A-Za-z0-9_.:/*-]+$/;

/**
 * Whether every name that `narrow` matches is matched by `wide`; never says so wrongly. Names hold no `*`, so a glob is
 * matched like a name: what its `*` stands for, a `*` of the wide one stands for as well.
 */
export const globCovers = (wide: string, narrow: string): boolean => globMatches(wide, narrow);
