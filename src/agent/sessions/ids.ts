import { randomBytes } from 'node:crypto';

/** Id of an external session: `x`, unix nanoseconds and 8 random hex digits. */
export function generateExternalId(now: Date): string {
  const nanos = BigInt(now.getTime()) * 1_000_000n + (process.hrtime.bigint() % 1_000_000n);
  return `x${nanos}${randomBytes(4).toString('hex')}`;
}

/** Id of a store session: `s`, 8 random hex digits and its number. */
export const generateStoreSessionId = (seq: number): string => `s${randomBytes(4).toString('hex')}-${seq}`;

/** Only store sessions can be revoked; tasks, runs and external sessions can only be observed. */
export const isStoreSessionId = (id: string): boolean => /^s[0-9a-f]{8}-\d{1,15}$/.test(id);
