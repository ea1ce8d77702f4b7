import { isMarked, markSeal, unmarkSeal } from '../core/seals.ts';

/**
 * This is Anthropic's own wire, so Anthropic's signatures are written without a tag. Signatures of other providers keep
 * their tag.
 */
export const writtenSeal = (seal: string): string => unmarkSeal('anthropic', seal) ?? seal;

export const readSeal = (seal: string): string => (isMarked(seal) ? seal : markSeal('anthropic', seal));
