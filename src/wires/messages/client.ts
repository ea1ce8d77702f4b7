import type { ClientWire } from '../core/wire.ts';
import { conversationOf } from './conversation.ts';
import { factsOf } from './facts.ts';
import { errorBodyOf } from './frames.ts';
import { MessagesWriter } from './writer.ts';

/** Anthropic's messages as a client wire. */
export const messagesWire: ClientWire = {
  name: 'messages',
  facts: factsOf,
  conversation: conversationOf,
  body(events, about) {
    const writer = new MessagesWriter(about);
    for (const event of events) writer.write(event);
    writer.end();
    return writer.message();
  },
  writer: (about) => new MessagesWriter(about),
  errorBody: errorBodyOf,
};
