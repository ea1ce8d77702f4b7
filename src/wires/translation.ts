import type { WireKind } from './core/types.ts';
import { invalidRequest } from './core/error.ts';
import { chatSame } from './chat/same.ts';
import { openaiChat } from './chat/upstream.ts';
import { completionsSame } from './completions/same.ts';
import { google } from './google/index.ts';
import { messagesSame } from './messages/same.ts';
import { anthropicMessages } from './messages/upstream.ts';
import { responsesSame } from './responses/same.ts';
import { openaiResponses } from './responses/upstream.ts';
import { translated } from './core/translated.ts';
import type { ClientWire, ClientWireName, Translation, UpstreamWire } from './core/wire.ts';

const upstreams: Readonly<Record<WireKind, UpstreamWire>> = {
  'openai-chat': openaiChat,
  'openai-responses': openaiResponses,
  'anthropic-messages': anthropicMessages,
  google,
  // Other hosts of this project speak OpenAI's chat wire.
  lathe: openaiChat,
};

/** Pairs of equal wires, where requests and answers pass through unchanged. */
const same: Readonly<Partial<Record<`${ClientWireName} ${WireKind}`, Translation>>> = {
  'chat openai-chat': chatSame,
  'chat lathe': chatSame,
  'responses openai-responses': responsesSame,
  'messages anthropic-messages': messagesSame,
  'completions openai-chat': completionsSame,
  'completions lathe': completionsSame,
};

const made = new Map<string, Translation>();

/**
 * Returns the translation between a client wire and a provider wire.
 * @throws WireError 400 where there is none
 */
export function translationOf(client: ClientWire, provider: WireKind): Translation {
  const pair = `${client.name} ${provider}` as const;
  const known = same[pair] ?? made.get(pair);
  if (known) return known;
  if (client.name === 'completions')
    throw invalidRequest('This model is not served on the completions wire; use POST /v1/chat/completions.', {
      param: 'model',
    });
  const translation = translated(client, upstreams[provider]);
  made.set(pair, translation);
  return translation;
}
