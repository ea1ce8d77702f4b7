import { openaiError } from '../error-schema.ts';
import type { Resident } from '../resident.ts';
import { defineRoute } from '../route.ts';
import type { Served } from '../served.ts';
import { type ChatAnswer, type ChatEvent, collectChat, startChat } from '../turn/chat.ts';
import { answerLimit } from '../turn/encode.ts';
import { answerHead, randomSeed, requireKind, requireModel } from '../turn/identity.ts';
import { toSampling, toStops } from '../turn/sampling.ts';
import { toChatTurns } from './chat-input.ts';
import {
  type ChatChunk,
  type ChatCompletion,
  chatChunk,
  chatCompletion,
  chatRequest,
} from './chat-schema.ts';
import { eventStream } from './event-stream.ts';
import { toUsage } from './usage.ts';

type Head = ReturnType<typeof answerHead>;

export function chatRoute(resident: Resident, served: Served) {
  return defineRoute({
    method: 'POST',
    path: '/v1/chat/completions',
    operationId: 'createChatCompletion',
    summary: 'Continue a conversation',
    description: "OpenAI's chat completions, buffered or as server-sent events. Unknown members are ignored.",
    body: chatRequest,
    answers: {
      200: {
        description: 'The answer; with `stream`, chunks as events and then `[DONE]`.',
        content: { 'application/json': chatCompletion, 'text/event-stream': chatChunk },
      },
      404: { description: 'No such model.', content: { 'application/json': openaiError } },
      429: {
        description: 'The queue is full; `Retry-After` tells when to come back.',
        content: { 'application/json': openaiError },
      },
      503: {
        description: 'No resident model, or it is loading, or the GPU was lost.',
        content: { 'application/json': openaiError },
      },
    },
    async handle({ body, signal, asProblem }) {
      const ready = resident.require();
      const { model, tokenizer } = ready.engine;
      requireModel(body.model, model);
      requireKind(model, 'generate');
      const wanted = body.max_completion_tokens ?? body.max_tokens;
      const { events } = await startChat(
        ready,
        {
          input: { messages: toChatTurns(body.messages) },
          sampling: toSampling(body, tokenizer.vocabSize, randomSeed),
          stop: toStops(body.stop),
          maxTokens: (prompt) => answerLimit(prompt, model.contextLength, 'messages', wanted),
        },
        signal,
      );
      const head = answerHead('chatcmpl', model);
      if (body.stream) {
        const chunks = chatChunks(events, head, body.stream_options?.include_usage === true, () =>
          served.streamed(),
        );
        return await eventStream(chunks, asProblem);
      }
      const [answer] = await collectChat(events);
      if (!answer) throw new Error('a conversation has an answer');
      served.buffered(answer.usage);
      return Response.json(toChatCompletion(head, answer));
    },
  });
}

function toChatCompletion(head: Head, { content, finishReason, usage }: ChatAnswer): ChatCompletion {
  const message = { role: 'assistant' as const, content, refusal: null };
  return {
    ...head,
    object: 'chat.completion',
    choices: [{ index: 0, message, logprobs: null, finish_reason: finishReason as 'stop' }],
    usage: toUsage([usage]),
  };
}

async function* chatChunks(
  events: AsyncIterable<ChatEvent>,
  head: Head,
  includeUsage: boolean,
  onEnd: () => void,
): AsyncGenerator<ChatChunk, void, undefined> {
  const chunk = (choices: ChatChunk['choices'], usage: ChatChunk['usage'] = null): ChatChunk => ({
    ...head,
    object: 'chat.completion.chunk',
    choices,
    ...(includeUsage ? { usage } : {}),
  });
  const delta = (
    part: ChatChunk['choices'][number]['delta'],
    finish_reason: 'stop' | 'length' | null = null,
  ) => chunk([{ index: 0, delta: part, logprobs: null, finish_reason }]);
  let begun = false;
  for await (const event of events) {
    // Clients break without a role on the first chunk; it waits for the first event so that refusals come before it.
    if (!begun) yield delta({ role: 'assistant', content: '', refusal: null });
    begun = true;
    if (event.type === 'content') yield delta({ content: event.text });
    if (event.type !== 'end') continue;
    yield delta({}, event.finishReason as 'stop');
    if (includeUsage) yield chunk([], toUsage([event.usage]));
    onEnd();
  }
}
