import { z } from 'zod';

/** Scopes of a peer's token. src/planes/scopes.ts lists the routes of each scope. */
export const peerScopes = ['read', 'infer', 'agent', 'approve'] as const;
export type PeerScope = (typeof peerScopes)[number];

export const peerScope = z.enum(peerScopes, {
  error: `expected ${peerScopes.map((scope) => `'${scope}'`).join(', ')}`,
});
