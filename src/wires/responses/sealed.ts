/**
 * Signatures and encrypted reasoning of providers other than OpenAI, encoded in `encrypted_content` of reasoning items.
 * Callers return that member unchanged, so a stateless loop also works on this wire with models that require their
 * reasoning back.
 */
export type Seal =
  /** Signature of the item's own summary. */
  | { readonly form: 'signature'; readonly signature: string }
  /** Reasoning that only the provider can read. */
  | { readonly form: 'sealed'; readonly data: string; readonly id?: string }
  /** Signature of the reasoning behind a call. */
  | { readonly form: 'call'; readonly callId: string; readonly signature: string };

/** A prefix that OpenAI's own `encrypted_content` never has. */
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

/** `foreign`: written by OpenAI; `broken`: written by this project, but altered. */
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
