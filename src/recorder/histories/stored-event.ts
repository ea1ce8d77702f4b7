import { createHash } from 'node:crypto';
import type { Content, NewEvent } from '../types.ts';
import type { Allowance } from '../redaction/allowance.ts';
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
export const longestContent = 256 * 1024;
/** Length removed from the end of cut content, which may be half a secret that no pattern matches. */
const unsafeEnd = 1024;
/** With the policy `metadata`, a longer attribute counts as content and is left out. */
const longestAttribute = 256;
/** Maximum size of all attributes as JSON in UTF-8. */
const mostAttributes = 64 * 1024;
const deepest = 8;

/** Parameters for storing events. */
interface Storing {
  readonly content: Content;
  readonly source: string;
  readonly redactor: Redactor;
  readonly now: string;
  readonly allowance?: Allowance;
}

/** Converts an event to the redacted row that the policy allows. @throws RedactionTimeoutError */
export function storedEvent(
  event: NewEvent,
  { content, source, redactor, now, allowance }: Storing,
): StoredEvent {
  let redacted = 0;
  const clean = (text: string): string => {
    const done = redactor.redact(wellFormed(text), allowance);
    redacted += done.count;
    return done.text;
  };
  const cleanOrNull = (text: string | undefined) => (text === undefined ? null : clean(text));

  const id = clean(event.id);
  const kind = clean(event.kind);
  const subject = cleanOrNull(event.subject);
  const circumstances = content !== 'none';
  const role = circumstances ? cleanOrNull(event.role) : null;
  const model = circumstances ? cleanOrNull(event.model) : null;
  const attributes = circumstances ? attributesOf(event, content, redactor, clean, () => redacted++) : null;
  const text = content === 'full' ? contentOf(event.content, clean) : null;
  const at = timeOf(event.at, now);
  const bytes = [id, kind, subject, role, model, attributes, text, at, source].reduce(
    (sum, part) => sum + (part === null ? 0 : Buffer.byteLength(part)),
    0,
  );
  const hash = createHash('sha256').update(event.id).digest().subarray(0, 16);
  return { hash, id, at, source, kind, subject, role, model, content: text, attributes, bytes, redacted };
}

/** Normalizes a time to UTC with milliseconds, so that times sort as texts. */
function timeOf(at: string, now: string): string {
  const ms = Date.parse(at);
  const time = Number.isNaN(ms) ? now : new Date(ms).toISOString();
  return /^\d{4}-/.test(time) ? time : now;
}

/** Replaces NUL characters, at which SQLite functions stop, and lone surrogates. */
const wellFormed = (text: string) => text.replaceAll('\0', '\uFFFD').toWellFormed();

function contentOf(content: string | undefined, clean: (text: string) => string): string | null {
  if (content === undefined) return null;
  if (content.length <= longestContent) return clean(content);
  return `${clean(content.slice(0, longestContent)).slice(0, -unsafeEnd)} [cut]`;
}

function attributesOf(
  event: NewEvent,
  content: Content,
  redactor: Redactor,
  clean: (text: string) => string,
  count: () => void,
): string | null {
  const size = event.content === undefined ? {} : { content_bytes: Buffer.byteLength(event.content) };
  const all = { ...event.attributes, ...size };
  if (Object.keys(all).length === 0) return null;
  const cleanText = (text: string): string => {
    if (content === 'metadata' && text.length > longestAttribute)
      return `[left out: ${text.length} characters]`;
    return clean(text);
  };
  const walk = (value: unknown, depth: number): unknown => {
    if (typeof value === 'string') return cleanText(value);
    if (typeof value === 'number' || typeof value === 'bigint') {
      const text = String(value);
      const done = clean(text);
      // A bigint (an amount of money) may exceed what JSON parsers read exactly; store it as text.
      return done === text && typeof value === 'number' ? value : done;
    }
    if (typeof value === 'boolean' || value === null) return value;
    if (typeof value !== 'object') return undefined;
    if (depth >= deepest) return '[left out: too deep]';
    if (Array.isArray(value)) return value.map((item) => walk(item, depth + 1));
    return Object.fromEntries(
      Object.entries(value).map(([name, item]) => {
        if (!redactor.isSecretName(name)) return [clean(name), walk(item, depth + 1)];
        count();
        return [clean(name), '[redacted]'];
      }),
    );
  };
  const json = JSON.stringify(walk(all, 0));
  const bytes = Buffer.byteLength(json);
  return bytes <= mostAttributes ? json : JSON.stringify({ ...size, attributes_left_out_bytes: bytes });
}
