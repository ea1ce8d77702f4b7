import { createHash } from 'node:crypto';
import { canonicalJson } from '../../signing/canonical-json.ts';

/** The members of a tool that a person reviews and that its hash covers; absent members stay absent. */
export interface PinnedMembers {
  readonly name: string;
  readonly description?: unknown;
  readonly inputSchema?: unknown;
  readonly annotations?: unknown;
}

/**
 * `sha256:` digest over the canonical JSON (RFC 8785) of a tool's name, description, input schema and annotations.
 * @throws TypeError for values without canonical JSON
 */
export function computePin({ name, description, inputSchema, annotations }: PinnedMembers): string {
  const text = canonicalJson({ name, description, inputSchema, annotations });
  return `sha256:${createHash('sha256').update(text).digest('hex')}`;
}
