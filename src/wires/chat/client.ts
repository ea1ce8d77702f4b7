import type { AnswerEvent } from '../core/answer.ts';
import type { AnswerAbout, ClientWire } from '../core/wire.ts';
import { conversationOf } from './conversation.ts';
import { factsOf } from './facts.ts';
import { choiceOf } from './message.ts';
import { writtenUsage } from './usage.ts';
import { answerId, ChunkWriter } from './writer.ts';

/** OpenAI's chat completions, as callers speak it. */
export const chatWire: ClientWire = {
  name: 'chat',
  facts: factsOf,
  conversation: conversationOf,
  body: bodyOf,
  writer: (about) => new ChunkWriter(about),
  errorBody: (error) => ({ error: error.body }),
};

function bodyOf(events: readonly AnswerEvent[], { requestId, created, model }: AnswerAbout): object {
  const { message, finish, logprobs } = choiceOf(events);
  const usage = events.findLast((event) => event.type === 'usage');
  return {
    id: answerId('chatcmpl', requestId),
    object: 'chat.completion',
    created,
    model,
    choices: [{ index: 0, message, logprobs, finish_reason: finish }],
    ...(usage ? { usage: writtenUsage(usage.usage) } : {}),
  };
}
