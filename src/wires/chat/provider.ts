import { completionsPassthrough } from '../completions/passthrough.ts';
import { bearerHeader } from '../core/bearer-header.ts';
import type { ProviderWire } from '../core/wire.ts';
import { openaiEmbeddings } from '../embeddings/openai.ts';
import { chatPassthrough } from './passthrough.ts';
import { openaiChat } from './upstream.ts';

export const openaiChatProvider: ProviderWire = {
  upstream: openaiChat,
  passthrough: { chat: chatPassthrough, completions: completionsPassthrough },
  embeddings: openaiEmbeddings,
  credentialHeader: bearerHeader,
  pathVersion: 'v1',
};
