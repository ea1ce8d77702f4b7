import { randomBytes } from 'node:crypto';

/** `x`, unix nanoseconds, and 8 random hex digits. */
export function newExternalId(now: Date): string {
  const nanos = BigInt(now.getTime()) * 1_000_000n + (process.hrtime.bigint() % 1_000_000n);
  return `x${nanos}${randomBytes(4).toString('hex')}`;
}

/** `s`, 8 random hex digits, and its number. */
export const newStoreSessionId = (seq: number): string => `s${randomBytes(4).toString('hex')}-${seq}`;

/** Only such ids can be revoked; those of tasks, runs and external sessions can only be observed. */
export const isStoreSessionId = (id: string): boolean => /^s[0-9a-f]{8}-\d{1,15}$/.test(id);
