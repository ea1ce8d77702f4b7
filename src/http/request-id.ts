import { randomFillSync } from 'node:crypto';

/** Random bytes are drawn for so many ids at once: one draw costs as much as one for all. */
const pool = Buffer.alloc(10 * 256);
let used = pool.length;

/**
 * `req_` and hexadecimal digits: 12 of the time in ms, then random ones. Ids sort by time, so rows of requests that run
 * together lie together in the database: a commit writes few pages, however large its tables are.
 * @param randomBytes at most the size of the pool
 */
export function newRequestId(randomBytes = 10): string {
  if (used + randomBytes > pool.length) {
    randomFillSync(pool);
    used = 0;
  }
  const random = pool.toString('hex', used, used + randomBytes);
  used += randomBytes;
  return `req_${Date.now().toString(16).padStart(12, '0')}${random}`;
}

/** Request ids of the host's planes have 24 digits. */
export const newHostRequestId = (): string => newRequestId(6);
