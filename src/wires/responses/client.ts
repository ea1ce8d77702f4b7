import { errorObject } from '../core/error.ts';
import type { ClientWire, StreamWriter } from '../core/wire.ts';
import { framed, ResponseEvents } from './events.ts';
import { factsOf } from './facts.ts';
import { conversationOf } from './input.ts';
import type { Made } from './open-items.ts';

/**
 * OpenAI's Responses as a client wire, without storage: the caller sends the items of the conversation with every
 * request.
 */
export const responsesWire: ClientWire = {
  name: 'responses',
  facts: factsOf,
  conversation: conversationOf,
  body: (events, about) => {
    const made = new ResponseEvents(about);
    for (const event of events) made.take(event);
    return made.whole();
  },
  writer: (about) => {
    const made = new ResponseEvents(about);
    let over = false;
    let next = 0;
    const write = (make: () => readonly Made[]): string => {
      if (over) return '';
      let text = '';
      for (const event of make()) text += framed(event, next++);
      return text;
    };
    const writer: StreamWriter = {
      write: (event) => write(() => made.take(event)),
      end: () => {
        const text = write(() => made.end());
        over = true;
        return text;
      },
      fail: (error) => {
        const text = write(() => made.fail(error));
        over = true;
        return text;
      },
    };
    return writer;
  },
  errorBody: (error) => ({ error: errorObject(error) }),
};
