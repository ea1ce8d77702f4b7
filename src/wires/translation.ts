import type { WireKind } from './core/types.ts';
import { invalidRequest } from './core/error.ts';
import { chatPassthrough } from './chat/passthrough.ts';
import { openaiChat } from './chat/upstream.ts';
import { completionsPassthrough } from './completions/passthrough.ts';
import { google } from './google/index.ts';
import { messagesPassthrough } from './messages/passthrough.ts';
import { anthropicMessages } from './messages/upstream.ts';
import { responsesPassthrough } from './responses/passthrough.ts';
import { openaiResponses } from './responses/upstream.ts';
import { composeTranslation } from './core/compose-translation.ts';
import type { ClientWire, ClientWireName, Translation, UpstreamWire } from './core/wire.ts';

/** The wires of providers. */
export const upstreamWires: Readonly<Record<WireKind, UpstreamWire>> = {
  'openai-chat': openaiChat,
  'openai-responses': openaiResponses,
  'anthropic-messages': anthropicMessages,
  google,
  // Other hosts of this project speak OpenAI's chat wire.
  lathe: openaiChat,
};

/** Pairs of equal wires, where requests and answers pass through unchanged. */
const sameWireTranslations: Readonly<Partial<Record<`${ClientWireName} ${WireKind}`, Translation>>> = {
  'chat openai-chat': chatPassthrough,
  'chat lathe': chatPassthrough,
  'responses openai-responses': responsesPassthrough,
  'messages anthropic-messages': messagesPassthrough,
  'completions openai-chat': completionsPassthrough,
  'completions lathe': completionsPassthrough,
};

const composedTranslations = new Map<string, Translation>();

/**
 * Returns the translation between a client wire and a provider wire.
 * @throws WireError 400 where there is none
 */
export function translationOf(client: ClientWire, provider: WireKind): Translation {
  const pair = `${client.name} ${provider}` as const;
  const existing = sameWireTranslations[pair] ?? composedTranslations.get(pair);
  if (existing) return existing;
  if (client.name === 'completions')
    throw invalidRequest('This model is not served on the completions wire; use POST /v1/chat/completions.', {
      param: 'model',
    });
  const translation = composeTranslation(client, upstreamWires[provider]);
  composedTranslations.set(pair, translation);
  return translation;
}
