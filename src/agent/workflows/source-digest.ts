import { createHash } from 'node:crypto';

export const computeSourceDigest = (source: string) =>
  `sha256:${createHash('sha256').update(source, 'utf8').digest('hex')}`;
