/**
 * Google's documented placeholder for calls that its model did not make or whose signature was lost: third-generation
 * models refuse a first call of a turn without a signature.
 */
export const placeholderSignature = 'skip_thought_signature_validator';

/** Prefix of generated ids. Google sends no id for most calls, but callers need one. */
const generatedIdPrefix = 'call_g_';

export const generateCallId = (): string => generatedIdPrefix + crypto.randomUUID().replaceAll('-', '');

/** The id of a call for Google: ids generated here are omitted. */
export const callIdMember = (id: string): { id?: string } => (id.startsWith(generatedIdPrefix) ? {} : { id });
