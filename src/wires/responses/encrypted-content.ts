import { tryParseJson } from '../../util/json.ts';

/**
 * Signatures and encrypted reasoning of providers other than OpenAI, encoded in `encrypted_content` of reasoning items.
 * Callers return that member unchanged, so a stateless loop also works on this wire with models that require their
 * reasoning back.
 */
export type EncodedReasoning =
  /** Signature of the item's own summary. */
  | { readonly form: 'signature'; readonly signature: string }
  /** Reasoning that only the provider can read. */
  | { readonly form: 'sealed'; readonly data: string; readonly id?: string }
  /** Signature of the reasoning behind a call. */
  | { readonly form: 'call'; readonly callId: string; readonly signature: string };

/** A prefix that OpenAI's own `encrypted_content` never has. */
export const encodedPrefix = 'lathe:';

/** The summary in a compaction item. It is encoded, not encrypted: it contains nothing but the caller's conversation. */
export const encodeSummary = (summary: string): string =>
  encodedPrefix + JSON.stringify(['summary', summary]);

/** @returns undefined where this project did not write the text */
export function decodeSummary(text: string): string | undefined {
  const members = text.startsWith(encodedPrefix) ? tryParseJson(text.slice(encodedPrefix.length)) : undefined;
  const [form, summary] = Array.isArray(members) ? (members as readonly unknown[]) : [];
  return form === 'summary' && typeof summary === 'string' ? summary : undefined;
}

export function encodeReasoning(reasoning: EncodedReasoning): string {
  return encodedPrefix + JSON.stringify(toMembers(reasoning));
}

function toMembers(reasoning: EncodedReasoning): readonly (string | undefined)[] {
  switch (reasoning.form) {
    case 'signature':
      return [reasoning.form, reasoning.signature];
    case 'sealed':
      return reasoning.id === undefined
        ? [reasoning.form, reasoning.data]
        : [reasoning.form, reasoning.data, reasoning.id];
    case 'call':
      return [reasoning.form, reasoning.callId, reasoning.signature];
  }
}

/** `foreign`: written by OpenAI; `broken`: written by this project, but altered. */
export function decodeReasoning(text: string): EncodedReasoning | 'foreign' | 'broken' {
  if (!text.startsWith(encodedPrefix)) return 'foreign';
  let members: unknown;
  try {
    members = JSON.parse(text.slice(encodedPrefix.length));
  } catch {
    return 'broken';
  }
  if (!Array.isArray(members) || !members.every((member) => typeof member === 'string')) return 'broken';
  const [form, first, second] = members as readonly string[];
  if (first === undefined) return 'broken';
  if (form === 'signature') return { form, signature: first };
  if (form === 'sealed') return { form, data: first, ...(second === undefined ? {} : { id: second }) };
  if (form === 'call' && second !== undefined) return { form, callId: first, signature: second };
  return 'broken';
}
