import { randomBytes } from 'node:crypto';

/** `msg_…`: names what a wire's clients refer to. */
export const freshId = (prefix: string): string => `${prefix}_${randomBytes(16).toString('hex')}`;
