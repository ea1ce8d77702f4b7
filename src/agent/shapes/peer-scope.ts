import { z } from 'zod';

/** What a peer's token may be limited to. src/planes/scopes.ts says which routes each of them opens. */
export const peerScopes = ['read', 'infer', 'agent', 'approve'] as const;
export type PeerScope = (typeof peerScopes)[number];

export const peerScope = z.enum(peerScopes, {
  error: `expected ${peerScopes.map((scope) => `'${scope}'`).join(', ')}`,
});
