import { openaiChatProvider } from './chat/provider.ts';
import type { ProviderWire } from './core/wire.ts';
import { googleProvider } from './google/provider.ts';
import { anthropicMessagesProvider } from './messages/provider.ts';
import { openaiResponsesProvider } from './responses/provider.ts';

/** The wires of providers, by the names that configuration files use. */
export const providerWires = {
  'openai-chat': openaiChatProvider,
  'openai-responses': openaiResponsesProvider,
  'anthropic-messages': anthropicMessagesProvider,
  google: googleProvider,
  // Another host of this project: OpenAI's chat wire, where several base URLs form a pool.
  lathe: openaiChatProvider,
} as const satisfies Readonly<Record<string, ProviderWire>>;

/** Protocol of an upstream. */
export type WireKind = keyof typeof providerWires;

export const wireNames = Object.keys(providerWires) as [WireKind, ...WireKind[]];

/** The descriptor of a wire. */
export const providerWireOf = (wire: WireKind): ProviderWire => providerWires[wire];
