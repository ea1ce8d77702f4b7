import { createHash } from 'node:crypto';
import { canonicalJson } from '../../signing/canonical-json.ts';

/** `prev_digest` of the first receipt of a chain. */
export const firstPrevDigest = `sha256:${'0'.repeat(64)}`;

/**
 * `sha256:` digest over the canonical JSON of all members, unknown ones included, but `digest` and `signature`.
 * Throws `TypeError` for values without canonical JSON.
 */
export function computeReceiptDigest(receipt: object): string {
  const { digest: _, signature: __, ...signed } = receipt as { digest?: unknown; signature?: unknown };
  return `sha256:${createHash('sha256').update(canonicalJson(signed)).digest('hex')}`;
}
