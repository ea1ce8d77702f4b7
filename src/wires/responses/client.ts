import { errorObject } from '../core/error.ts';
import type { ClientWire, StreamWriter } from '../core/wire.ts';
import { sseFrame, ResponseEvents } from './events.ts';
import { readFacts } from './facts.ts';
import { readConversation } from './input.ts';
import type { UnnumberedEvent } from './open-items.ts';

/**
 * OpenAI's Responses as a client wire, without storage: the caller sends the items of the conversation with every
 * request.
 */
export const responsesWire: ClientWire = {
  name: 'responses',
  facts: readFacts,
  conversation: readConversation,
  body: (events, metadata) => {
    const responseEvents = new ResponseEvents(metadata);
    for (const event of events) responseEvents.add(event);
    return responseEvents.complete();
  },
  writer: (metadata) => {
    const responseEvents = new ResponseEvents(metadata);
    let isOver = false;
    let sequenceNumber = 0;
    const write = (createEvents: () => readonly UnnumberedEvent[]): string => {
      if (isOver) return '';
      let text = '';
      for (const event of createEvents()) text += sseFrame(event, sequenceNumber++);
      return text;
    };
    const writer: StreamWriter = {
      write: (event) => write(() => responseEvents.add(event)),
      end: () => {
        const text = write(() => responseEvents.end());
        isOver = true;
        return text;
      },
      fail: (error) => {
        const text = write(() => responseEvents.fail(error));
        isOver = true;
        return text;
      },
    };
    return writer;
  },
  errorBody: (error) => ({ error: errorObject(error) }),
};
