import type { ProviderWire } from '../core/wire.ts';
import { messagesPassthrough } from './passthrough.ts';
import { anthropicMessages } from './upstream.ts';

export const anthropicMessagesProvider: ProviderWire = {
  upstream: anthropicMessages,
  passthrough: { messages: messagesPassthrough },
  credentialHeader: (key) => ({ 'x-api-key': key }),
  headers: { 'anthropic-version': '2023-06-01' },
  pathVersion: 'v1',
};
