/**
 * Providers sign the reasoning of their models, require the signatures in later requests, and reject those of other
 * providers. A signature that is passed to the caller on another wire than its issuer's own is tagged with the issuer
 * and returned only to that provider, whichever model the caller continues with. Signatures without a tag, or with
 * another provider's tag, are dropped.
 *
 * Only Google signs tool calls. These signatures have no tag, because their member on the wires identifies the issuer.
 */
export type SealMaker = 'anthropic' | 'google' | 'openai';

const makers: readonly SealMaker[] = ['anthropic', 'google', 'openai'];

export const markSeal = (maker: SealMaker, seal: string): string => `${maker}:${seal}`;

/** The provider's original signature; undefined where another provider issued it. */
export const unmarkSeal = (maker: SealMaker, seal: string | undefined): string | undefined =>
  seal?.startsWith(`${maker}:`) ? seal.slice(maker.length + 1) : undefined;

export const isMarked = (seal: string): boolean => makers.some((maker) => seal.startsWith(`${maker}:`));
