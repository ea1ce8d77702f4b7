import type { Policy } from './types.ts';

/** A policy as it is typed. */
export interface PolicyDraft {
  readonly content: Policy['content'];
  readonly days: string;
  /** In MiB: nobody counts bytes. */
  readonly size: string;
  readonly events: string;
  /** One pattern a line. */
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

/** Only what differs: what is absent stays. Undefined where nothing does. */
export function changeOf(draft: PolicyDraft, policy: Policy): Partial<Policy> | undefined {
  const before = draftOf(policy);
  const retention = {
    ...(draft.days === before.days ? {} : { days: Number(draft.days) }),
    ...(draft.size === before.size ? {} : { bytes: Math.round(Number(draft.size) * mib) }),
    ...(draft.events === before.events ? {} : { events: Number(draft.events) }),
  };
  const patterns = (text: string) => text.split('\n').filter((line) => line !== '');
  const change = {
    ...(draft.content === before.content ? {} : { content: draft.content }),
    // The host keeps the bounds that are not named.
    ...(Object.keys(retention).length === 0 ? {} : { retention: retention as Policy['retention'] }),
    ...(patterns(draft.redact).join('\n') === before.redact ? {} : { redact: patterns(draft.redact) }),
  };
  return Object.keys(change).length === 0 ? undefined : change;
}

/** What keeps less of what is there already, and does so at once. */
export function tightens(draft: PolicyDraft, { retention }: Policy): boolean {
  return (
    Number(draft.days) < retention.days ||
    Number(draft.size) * mib < retention.bytes - 1024 ||
    Number(draft.events) < retention.events
  );
}
