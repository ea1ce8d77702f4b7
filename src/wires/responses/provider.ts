import { bearerHeader } from '../core/bearer-header.ts';
import type { ProviderWire } from '../core/wire.ts';
import { openaiEmbeddings } from '../embeddings/openai.ts';
import { responsesPassthrough } from './passthrough.ts';
import { openaiResponses } from './upstream.ts';

export const openaiResponsesProvider: ProviderWire = {
  upstream: openaiResponses,
  passthrough: { responses: responsesPassthrough },
  // The same provider's endpoint, beside its other wire.
  embeddings: openaiEmbeddings,
  credentialHeader: bearerHeader,
  pathVersion: 'v1',
};
