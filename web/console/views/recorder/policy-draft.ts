import type { Policy } from './types.ts';

/** A policy as typed in the form. */
export interface PolicyDraft {
  readonly content: Policy['content'];
  readonly days: string;
  /** Maximum size in MiB. */
  readonly size: string;
  readonly events: string;
  /** Redaction patterns, one per line. */
  readonly redact: string;
}

const mib = 1024 * 1024;

export const draftOf = ({ content, retention, redact }: Policy): PolicyDraft => ({
  content,
  days: String(retention.days),
  size: String(Math.round((retention.bytes / mib) * 1000) / 1000),
  events: String(retention.events),
  redact: redact.join('\n'),
});

/** The changed members only; the host keeps the others. Undefined when nothing changed. */
export function changedMembers(draft: PolicyDraft, policy: Policy): Partial<Policy> | undefined {
  const before = draftOf(policy);
  const retention = {
    ...(draft.days === before.days ? {} : { days: Number(draft.days) }),
    ...(draft.size === before.size ? {} : { bytes: Math.round(Number(draft.size) * mib) }),
    ...(draft.events === before.events ? {} : { events: Number(draft.events) }),
  };
  const patterns = (text: string) => text.split('\n').filter((line) => line !== '');
  const change = {
    ...(draft.content === before.content ? {} : { content: draft.content }),
    // The host keeps the limits that are absent.
    ...(Object.keys(retention).length === 0 ? {} : { retention: retention as Policy['retention'] }),
    ...(patterns(draft.redact).join('\n') === before.redact ? {} : { redact: patterns(draft.redact) }),
  };
  return Object.keys(change).length === 0 ? undefined : change;
}

/** Whether the draft lowers a retention limit, which deletes stored events at once. */
export function lowersLimits(draft: PolicyDraft, { retention }: Policy): boolean {
  return (
    Number(draft.days) < retention.days ||
    Number(draft.size) * mib < retention.bytes - 1024 ||
    Number(draft.events) < retention.events
  );
}
