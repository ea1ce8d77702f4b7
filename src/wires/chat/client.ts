import { errorObject } from '../core/error.ts';
import type { AnswerEvent } from '../core/answer.ts';
import type { AnswerAbout, ClientWire } from '../core/wire.ts';
import { conversationOf } from './conversation.ts';
import { factsOf } from './facts.ts';
import { choiceOf } from './message.ts';
import { writtenUsage } from './usage.ts';
import { formOf, headOf } from './resident-form.ts';
import { ChunkWriter } from './writer.ts';

/** OpenAI's chat completions as a client wire. */
export const chatWire: ClientWire = {
  name: 'chat',
  facts: factsOf,
  conversation: conversationOf,
  body: bodyOf,
  writer: (about) => new ChunkWriter(about),
  errorBody: (error) => ({ error: errorObject(error) }),
};

function bodyOf(events: readonly AnswerEvent[], about: AnswerAbout): object {
  const usage = events.findLast((event) => event.type === 'usage');
  const form = formOf(about);
  return {
    ...headOf(about, 'chat.completion'),
    choices: choicesOf(events).map((choice, index) => {
      const { message, finish, logprobs } = choiceOf(choice, form);
      return { index, message, logprobs, finish_reason: finish };
    }),
    ...(usage ? { usage: writtenUsage(usage.usage) } : {}),
    ...(usage?.timings ? { timings: usage.timings } : {}),
  };
}

/** Groups the events by choice; returns at least one group. */
function choicesOf(events: readonly AnswerEvent[]): readonly (readonly AnswerEvent[])[] {
  if (events.every(({ choice = 0 }) => choice === 0)) return [events];
  const choices: AnswerEvent[][] = [];
  for (const event of events) (choices[event.choice ?? 0] ??= []).push(event);
  return choices;
}
