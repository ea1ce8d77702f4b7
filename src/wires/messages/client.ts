import type { ClientWire } from '../core/wire.ts';
import { readConversation } from './conversation.ts';
import { readFacts } from './facts.ts';
import { writeErrorBody } from './frames.ts';
import { MessagesWriter } from './writer.ts';

/** Anthropic's messages as a client wire. */
export const messagesWire: ClientWire = {
  name: 'messages',
  facts: readFacts,
  conversation: readConversation,
  body(events, metadata) {
    const writer = new MessagesWriter(metadata);
    for (const event of events) writer.write(event);
    writer.end();
    return writer.message();
  },
  writer: (metadata) => new MessagesWriter(metadata),
  errorBody: writeErrorBody,
};
