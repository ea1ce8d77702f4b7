/**
 * Providers sign the reasoning of their models, require the signatures in later requests, and reject those of other
 * providers. A signature that is passed to the caller on another wire than its issuer's own is tagged with the issuer
 * and returned only to that provider, whichever model the caller continues with. Signatures without a tag, or with
 * another provider's tag, are dropped.
 *
 * Only Google signs tool calls. These signatures have no tag, because their member on the wires identifies the issuer.
 */
export type SignatureIssuer = 'anthropic' | 'google' | 'openai';

const issuers: readonly SignatureIssuer[] = ['anthropic', 'google', 'openai'];

export const tagSignature = (issuer: SignatureIssuer, signature: string): string => `${issuer}:${signature}`;

/** The provider's original signature; undefined where another provider issued it. */
export const untagSignature = (issuer: SignatureIssuer, signature: string | undefined): string | undefined =>
  signature?.startsWith(`${issuer}:`) ? signature.slice(issuer.length + 1) : undefined;

export const isTagged = (signature: string): boolean =>
  issuers.some((issuer) => signature.startsWith(`${issuer}:`));
