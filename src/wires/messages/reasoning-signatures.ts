import { isTagged, tagSignature, untagSignature } from '../core/reasoning-signatures.ts';

/**
 * This is Anthropic's own wire, so Anthropic's signatures are written without a tag. Signatures of other providers keep
 * their tag.
 */
export const writeSignature = (signature: string): string =>
  untagSignature('anthropic', signature) ?? signature;

export const readSignature = (signature: string): string =>
  isTagged(signature) ? signature : tagSignature('anthropic', signature);
