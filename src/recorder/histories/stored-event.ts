import { createHash } from 'node:crypto';
import type { ContentLevel, NewEvent } from '../types.ts';
import type { TimeBudget } from '../redaction/time-budget.ts';
import type { Redactor } from '../redaction/redactor.ts';

/** A row of a history. */
export interface StoredEvent {
  /** Hash of the id before redaction. */
  readonly hash: Uint8Array;
  readonly id: string;
  readonly at: string;
  readonly source: string;
  readonly kind: string;
  readonly subject: string | null;
  readonly role: string | null;
  readonly model: string | null;
  readonly content: string | null;
  /** JSON. */
  readonly attributes: string | null;
  readonly bytes: number;
  /** Number of redacted matches. */
  readonly redacted: number;
}

/** Maximum length of content in UTF-16 units. Longer content is cut. */
export const maxContentLength = 256 * 1024;
/** Length removed from the end of cut content, which may be half a secret that no pattern matches. */
const unsafeTailLength = 1024;
/** With the policy `metadata`, a longer attribute counts as content and is left out. */
const maxAttributeLength = 256;
/** Maximum size of all attributes as JSON in UTF-8. */
const maxAttributes = 64 * 1024;
const maxAttributeDepth = 8;

/** Parameters for storing events. */
interface StorageOptions {
  readonly content: ContentLevel;
  readonly source: string;
  readonly redactor: Redactor;
  readonly now: string;
  readonly allowance?: TimeBudget;
}

/** Converts an event to the redacted row that the policy allows. @throws RedactionTimeoutError */
export function toStoredEvent(
  event: NewEvent,
  { content, source, redactor, now, allowance }: StorageOptions,
): StoredEvent {
  let redacted = 0;
  const redactText = (text: string): string => {
    const redaction = redactor.redact(toWellFormedText(text), allowance);
    redacted += redaction.count;
    return redaction.text;
  };
  const redactOrNull = (text: string | undefined) => (text === undefined ? null : redactText(text));

  const id = redactText(event.id);
  const kind = redactText(event.kind);
  const subject = redactOrNull(event.subject);
  const keepsMetadata = content !== 'none';
  const role = keepsMetadata ? redactOrNull(event.role) : null;
  const model = keepsMetadata ? redactOrNull(event.model) : null;
  const attributes = keepsMetadata
    ? storedAttributes(event, content, redactor, redactText, () => redacted++)
    : null;
  const text = content === 'full' ? storedContent(event.content, redactText) : null;
  const at = normalizeTime(event.at, now);
  const bytes = [id, kind, subject, role, model, attributes, text, at, source].reduce(
    (sum, part) => sum + (part === null ? 0 : Buffer.byteLength(part)),
    0,
  );
  const hash = createHash('sha256').update(event.id).digest().subarray(0, 16);
  return { hash, id, at, source, kind, subject, role, model, content: text, attributes, bytes, redacted };
}

/** Normalizes a time to UTC with milliseconds, so that times sort as texts. */
function normalizeTime(at: string, now: string): string {
  const ms = Date.parse(at);
  const time = Number.isNaN(ms) ? now : new Date(ms).toISOString();
  return /^\d{4}-/.test(time) ? time : now;
}

/** Replaces NUL characters, at which SQLite functions stop, and lone surrogates. */
const toWellFormedText = (text: string) => text.replaceAll('\0', '\uFFFD').toWellFormed();

function storedContent(content: string | undefined, redactText: (text: string) => string): string | null {
  if (content === undefined) return null;
  if (content.length <= maxContentLength) return redactText(content);
  return `${redactText(content.slice(0, maxContentLength)).slice(0, -unsafeTailLength)} [cut]`;
}

function storedAttributes(
  event: NewEvent,
  content: ContentLevel,
  redactor: Redactor,
  redactText: (text: string) => string,
  count: () => void,
): string | null {
  const size = event.content === undefined ? {} : { content_bytes: Buffer.byteLength(event.content) };
  const all = { ...event.attributes, ...size };
  if (Object.keys(all).length === 0) return null;
  const redactAttribute = (text: string): string => {
    if (content === 'metadata' && text.length > maxAttributeLength)
      return `[left out: ${text.length} characters]`;
    return redactText(text);
  };
  const walk = (value: unknown, depth: number): unknown => {
    if (typeof value === 'string') return redactAttribute(value);
    if (typeof value === 'number' || typeof value === 'bigint') {
      const text = String(value);
      const redaction = redactText(text);
      // A bigint (an amount of money) may exceed what JSON parsers read exactly; store it as text.
      return redaction === text && typeof value === 'number' ? value : redaction;
    }
    if (typeof value === 'boolean' || value === null) return value;
    if (typeof value !== 'object') return undefined;
    if (depth >= maxAttributeDepth) return '[left out: too deep]';
    if (Array.isArray(value)) return value.map((item) => walk(item, depth + 1));
    return Object.fromEntries(
      Object.entries(value).map(([name, item]) => {
        if (!redactor.isSecretName(name)) return [redactText(name), walk(item, depth + 1)];
        count();
        return [redactText(name), '[redacted]'];
      }),
    );
  };
  const json = JSON.stringify(walk(all, 0));
  const bytes = Buffer.byteLength(json);
  return bytes <= maxAttributes ? json : JSON.stringify({ ...size, attributes_left_out_bytes: bytes });
}
