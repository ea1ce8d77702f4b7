import type { ProviderWire } from '../core/wire.ts';
import { googleEmbeddings } from '../embeddings/google.ts';
import { google } from './index.ts';

export const googleProvider: ProviderWire = {
  upstream: google,
  embeddings: googleEmbeddings,
  credentialHeader: (key) => ({ 'x-goog-api-key': key }),
  pathVersion: 'v1beta',
  // Its answer to an unknown key.
  wrongKeyStatuses: [400],
};
