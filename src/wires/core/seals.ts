/**
 * Providers seal what their models thought, want the seals back, and refuse those of others. A seal that leaves on another
 * wire than its maker's own is marked with its maker, and goes back to that maker only, whatever other model the caller
 * goes on with: seals without a mark, or with another's, are nobody's here.
 *
 * Seals of calls are Google's only, and bear no mark: their place on the wires says so.
 */
export type SealMaker = 'anthropic' | 'google' | 'openai';

const makers: readonly SealMaker[] = ['anthropic', 'google', 'openai'];

export const markSeal = (maker: SealMaker, seal: string): string => `${maker}:${seal}`;

/** The seal as its maker knows it; undefined: another's. */
export const unmarkSeal = (maker: SealMaker, seal: string | undefined): string | undefined =>
  seal?.startsWith(`${maker}:`) ? seal.slice(maker.length + 1) : undefined;

export const isMarked = (seal: string): boolean => makers.some((maker) => seal.startsWith(`${maker}:`));
