import { errorObject } from '../core/error.ts';
import type { AnswerEvent } from '../core/answer.ts';
import type { AnswerMetadata, ClientWire } from '../core/wire.ts';
import { readConversation } from './conversation.ts';
import { readFacts } from './facts.ts';
import { writeChoice } from './message.ts';
import { writeUsage } from './usage.ts';
import { readResidentOptions, commonMembers } from './resident-answer-options.ts';
import { ChunkWriter } from './writer.ts';

/** OpenAI's chat completions as a client wire. */
export const chatWire: ClientWire = {
  name: 'chat',
  facts: readFacts,
  conversation: readConversation,
  body: writeBody,
  writer: (metadata) => new ChunkWriter(metadata),
  errorBody: (error) => ({ error: errorObject(error) }),
};

function writeBody(events: readonly AnswerEvent[], metadata: AnswerMetadata): object {
  const usage = events.findLast((event) => event.type === 'usage');
  const residentOptions = readResidentOptions(metadata);
  return {
    ...commonMembers(metadata, 'chat.completion'),
    choices: groupByChoice(events).map((choice, index) => {
      const { message, finish, logprobs } = writeChoice(choice, residentOptions);
      return { index, message, logprobs, finish_reason: finish };
    }),
    ...(usage ? { usage: writeUsage(usage.usage) } : {}),
    ...(usage?.timings ? { timings: usage.timings } : {}),
  };
}

/** Groups the events by choice; returns at least one group. */
function groupByChoice(events: readonly AnswerEvent[]): readonly (readonly AnswerEvent[])[] {
  if (events.every(({ choice = 0 }) => choice === 0)) return [events];
  const choices: AnswerEvent[][] = [];
  for (const event of events) (choices[event.choice ?? 0] ??= []).push(event);
  return choices;
}
