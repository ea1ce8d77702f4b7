/**
 * Seals of other providers than OpenAI, kept in `encrypted_content` of reasoning items: callers hand it back as it is, so
 * that a stateless loop over models that want their thoughts back works on this wire too.
 */
export type Seal =
  /** Of the item's own summary. */
  | { readonly form: 'signature'; readonly signature: string }
  /** Thoughts that only the provider can read. */
  | { readonly form: 'sealed'; readonly data: string; readonly id?: string }
  /** Of the thought behind a call. */
  | { readonly form: 'call'; readonly callId: string; readonly signature: string };

/** What OpenAI's own never begins with. */
export const sealMark = 'lathe:';

export function encodeSeal(seal: Seal): string {
  return sealMark + JSON.stringify(membersOf(seal));
}

function membersOf(seal: Seal): readonly (string | undefined)[] {
  switch (seal.form) {
    case 'signature':
      return [seal.form, seal.signature];
    case 'sealed':
      return seal.id === undefined ? [seal.form, seal.data] : [seal.form, seal.data, seal.id];
    case 'call':
      return [seal.form, seal.callId, seal.signature];
  }
}

/** `foreign`: OpenAI's own; `broken`: ours once, but altered. */
export function decodeSeal(text: string): Seal | 'foreign' | 'broken' {
  if (!text.startsWith(sealMark)) return 'foreign';
  let members: unknown;
  try {
    members = JSON.parse(text.slice(sealMark.length));
  } catch {
    return 'broken';
  }
  if (!Array.isArray(members) || !members.every((each) => typeof each === 'string')) return 'broken';
  const [form, first, second] = members as readonly string[];
  if (first === undefined) return 'broken';
  if (form === 'signature') return { form, signature: first };
  if (form === 'sealed') return { form, data: first, ...(second === undefined ? {} : { id: second }) };
  if (form === 'call' && second !== undefined) return { form, callId: first, signature: second };
  return 'broken';
}
