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
  // Our own host speaks OpenAI's chat wire.
  lathe: openaiChat,
};

/** Where both speak the same, all passes as it came. */
const same: Readonly<Partial<Record<`${ClientWireName} ${WireKind}`, Translation>>> = {
  'chat openai-chat': chatSame,
  'chat lathe': chatSame,
  'responses openai-responses': responsesSame,
  'messages anthropic-messages': messagesSame,
  'completions openai-chat': completionsSame,
  'completions lathe': completionsSame,
};

const made = new Map<string, Translation>();

/** The way from a wire of callers to one of providers and back. @throws WireError 400 where there is none */
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
