import { globMatches } from '../tools/glob.ts';

export { globMatches };

/** Characters of tool names, and `*`. */
export const globPattern = /^[A-Za-z0-9_.:/*-]+$/;

/**
 * Whether `wide` matches every name that `narrow` matches, without false positives. Names contain no `*`, so `narrow`
 * is matched like a name: its `*` can only be matched by a `*` of `wide`.
 */
export const globCovers = (wide: string, narrow: string): boolean => globMatches(wide, narrow);
