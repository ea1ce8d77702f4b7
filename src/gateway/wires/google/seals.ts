/**
 * Google seals parts of an answer (`thoughtSignature`) and refuses seals that are not its own. On a call the seal keeps
 * its form, as callers may know it from Google's own compatible endpoint. On reasoning it is marked, since the seals of
 * other providers come back in the same place when a conversation goes on with another model.
 */
const mark = 'google:';

export const markSeal = (signature: string): string => mark + signature;

/** Undefined: another provider's. */
export const unmarkSeal = (signature: string | undefined): string | undefined =>
  signature?.startsWith(mark) ? signature.slice(mark.length) : undefined;

/**
 * What Google documents for calls that its model did not make or whose seal was lost: models of the third generation
 * refuse the first call of a turn without any.
 */
export const absentSeal = 'skip_thought_signature_validator';

/** Google gives most calls no id, callers need one. */
const made = 'call_g_';

export const madeId = (): string => made + crypto.randomUUID().replaceAll('-', '');

/** The id of a call as Google may see it: only its own, or another provider's. */
export const givenId = (id: string): { id?: string } => (id.startsWith(made) ? {} : { id });
