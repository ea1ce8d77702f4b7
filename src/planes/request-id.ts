import { randomBytes } from 'node:crypto';

/** Names one request in its answer and in the log. */
export const newRequestId = (): string => `req_${randomBytes(12).toString('hex')}`;
