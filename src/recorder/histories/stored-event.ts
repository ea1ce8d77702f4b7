import { createHash } from 'node:crypto';
import type { Content, NewEvent } from '../types.ts';
import type { Allowance } from '../redaction/allowance.ts';
import type { Redactor } from '../redaction/redactor.ts';

/** A row of a history. */
export interface StoredEvent {
  /** Of the id as it came. */
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
  /** Matches that were taken out. */
  readonly redacted: number;
}

/** A longer text of the host's own is cut, in UTF-16 units. */
export const longestContent = 256 * 1024;
/** Of a text that was cut, the last piece may be half a secret, which no pattern knows. */
const unsafeEnd = 1024;
/** Where nothing of the texts is kept, an attribute that is longer is one. */
const longestAttribute = 256;
/** In UTF-8. */
const mostAttributes = 64 * 1024;
const deepest = 8;

/** What an event is stored by. */
interface Storing {
  readonly content: Content;
  readonly source: string;
  readonly redactor: Redactor;
  readonly now: string;
  readonly allowance?: Allowance;
}

/** What a policy keeps of an event, without what is redacted. @throws TooSlow */
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

/** In UTC with milliseconds, so that times sort as texts. */
function timeOf(at: string, now: string): string {
  const ms = Date.parse(at);
  const time = Number.isNaN(ms) ? now : new Date(ms).toISOString();
  return /^\d{4}-/.test(time) ? time : now;
}

/** SQLite's functions end at a NUL; half of a pair is no text. */
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
      // Money in whole numbers may be beyond what JSON's readers take.
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
