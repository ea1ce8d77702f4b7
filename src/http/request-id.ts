import { randomFillSync } from 'node:crypto';

/** Random bytes are generated for many ids at once: one system call costs as much as one for a single id. */
const pool = Buffer.alloc(10 * 256);
let poolOffset = pool.length;

/**
 * Returns `req_` and hexadecimal digits: 12 digits of the time in ms, then random ones. The ids sort by time, so rows
 * of concurrent requests are adjacent in the database and a commit writes few pages.
 * @param randomBytes at most the size of the pool
 */
export function newRequestId(randomBytes = 10): string {
  if (poolOffset + randomBytes > pool.length) {
    randomFillSync(pool);
    poolOffset = 0;
  }
  const random = pool.toString('hex', poolOffset, poolOffset + randomBytes);
  poolOffset += randomBytes;
  return `req_${Date.now().toString(16).padStart(12, '0')}${random}`;
}

/** Request ids of the host's planes have 24 digits. */
export const newHostRequestId = (): string => newRequestId(6);
