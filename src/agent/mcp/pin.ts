import { createHash } from 'node:crypto';
import { canonicalJson } from '../../signing/canonical-json.ts';

/** What of a tool a person looks at, and what its hash is over; members that a server leaves out are left out here. */
export interface PinnedPart {
  readonly name: string;
  readonly description?: unknown;
  readonly inputSchema?: unknown;
  readonly annotations?: unknown;
}

/**
 * `sha256:` over the RFC 8785 form of a tool's name, description, input schema and annotations.
 * @throws TypeError for what has no such form
 */
export function pinOf({ name, description, inputSchema, annotations }: PinnedPart): string {
  const text = canonicalJson({ name, description, inputSchema, annotations });
  return `sha256:${createHash('sha256').update(text).digest('hex')}`;
}
