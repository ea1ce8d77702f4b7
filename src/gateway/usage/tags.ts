import { hash } from 'node:crypto';
import { printable } from '../../terminal/printable.ts';
import { isRecord, type Json } from '../../util/json.ts';
import { toDay } from './query.ts';

/** Length limit of a tag, in UTF-16 code units. Longer ones are cut. */
const maxTagLength = 128;
/** Different tags of one key on one day; what comes after is counted under `otherTag`. */
const maxTags = 10_000;
/** The tag of requests whose own tag is one too many. */
export const otherTag = '(other)';

/** The request header with a tag. */
export const tagHeader = 'x-svc-tag';

/**
 * The tag of a request: that of the header, else the end user that the body names: `user` or `safety_identifier` of OpenAI's
 * wires, `metadata.user_id` of the messages wire.
 * @param header value as Node reads it, one character for each byte; it is taken as UTF-8
 * @returns '' if there is none
 */
export function readTag(wire: string, body: Json, header?: string): string {
  const tag = header === undefined ? '' : toTag(Buffer.from(header, 'latin1').toString());
  if (tag !== '') return tag;
  const { metadata } = body;
  const named =
    wire === 'messages'
      ? isRecord(metadata) && metadata['user_id']
      : (body['user'] ?? body['safety_identifier']);
  return typeof named === 'string' ? toTag(named) : '';
}

const toTag = (text: string): string => printable(text.trim()).slice(0, maxTagLength).toWellFormed();

/**
 * Limits the number of different tags, because each has rows of its own in the usage. Every gateway counts for itself, so several
 * gateways of one database may store more.
 */
export class TagLimiter {
  readonly #maxTags: number;
  /** Hashes of the tags of the day, by key id. An unlikely collision only admits one tag more. */
  readonly #tags = new Map<string, Set<number>>();
  #day = '';

  constructor(limit = maxTags) {
    this.#maxTags = limit;
  }

  /** @returns the tag, or `otherTag` when the key had too many on this day */
  admit(keyId: string, tag: string, now: Date = new Date()): string {
    if (tag === '') return tag;
    const day = toDay(now);
    if (day !== this.#day) {
      this.#tags.clear();
      this.#day = day;
    }
    const known = this.#tags.get(keyId) ?? new Set();
    this.#tags.set(keyId, known);
    const id = Number.parseInt(hash('sha1', tag).slice(0, 7), 16);
    if (known.has(id)) return tag;
    if (known.size >= this.#maxTags) return otherTag;
    known.add(id);
    return tag;
  }
}
