import { randomFillSync } from 'node:crypto';

/** Of each id. */
const randomBytes = 10;
/** Drawn for so many ids at once: a draw costs as much for one. */
const drawn = Buffer.alloc(randomBytes * 256);
let used = drawn.length;

/**
 * `req_` and 32 hexadecimal digits: the time in ms, then chance. In the order of time, so that the rows of requests that
 * run together lie together in the database: a commit writes few pages, however large its tables are.
 */
export function newRequestId(): string {
  if (used === drawn.length) {
    randomFillSync(drawn);
    used = 0;
  }
  const chance = drawn.toString('hex', used, used + randomBytes);
  used += randomBytes;
  return `req_${Date.now().toString(16).padStart(12, '0')}${chance}`;
}
