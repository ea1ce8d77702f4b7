import { isMarked, markSeal, unmarkSeal } from '../core/seals.ts';

/** The wire is Anthropic's own: its seals stand here as Anthropic wrote them. Others keep their mark. */
export const writtenSeal = (seal: string): string => unmarkSeal('anthropic', seal) ?? seal;

export const readSeal = (seal: string): string => (isMarked(seal) ? seal : markSeal('anthropic', seal));
