import { createHash } from 'node:crypto';
import { canonicalJson } from '../../signing/canonical-json.ts';

/** What the first receipt of a chain has as the digest before it. */
export const chainStart = `sha256:${'0'.repeat(64)}`;

/**
 * `sha256:` over the canonical JSON of all members but `digest` and `signature`; unknown ones count too.
 * Throws `TypeError` for what has no canonical JSON.
 */
export function receiptDigest(receipt: object): string {
  const { digest: _, signature: __, ...signed } = receipt as { digest?: unknown; signature?: unknown };
  return `sha256:${createHash('sha256').update(canonicalJson(signed)).digest('hex')}`;
}
