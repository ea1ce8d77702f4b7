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
