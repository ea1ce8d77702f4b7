import type { GenerationEvent } from '../../engine/index.ts';
import { openaiError } from '../error-schema.ts';
import type { Resident } from '../resident.ts';
import { defineRoute } from '../route.ts';
import type { Served } from '../served.ts';
import { chatPrompt } from './chat-prompt.ts';
import {
  type ChatChunk,
  type ChatCompletion,
  chatChunk,
  chatCompletion,
  chatRequest,
} from './chat-schema.ts';
import { answerLimit } from './encode.ts';
import { eventStream } from './event-stream.ts';
import { type Answer, collect, generate } from './generation.ts';
import { answerHead, randomSeed, requireKind, requireModel } from './identity.ts';
import { toSampling, toStops } from './sampling.ts';
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
      const { engine } = resident.require();
      requireModel(body.model, engine.model);
      requireKind(engine.model, 'generate');
      const sampling = toSampling(body, engine.tokenizer.vocabSize, randomSeed);
      const prompt = await chatPrompt(engine, body.messages);
      const wanted = body.max_completion_tokens ?? body.max_tokens;
      const maxTokens = answerLimit(prompt.length, engine.model.contextLength, 'messages', wanted);
      const events = generate(engine, { prompt, maxTokens, sampling, stop: toStops(body.stop) }, signal);
      const head = answerHead('chatcmpl', engine.model);
      if (body.stream) {
        const chunks = chatChunks(events, head, body.stream_options?.include_usage === true, () =>
          served.streamed(),
        );
        return await eventStream(chunks, asProblem);
      }
      const answer = await collect(events);
      served.buffered(answer.usage);
      return Response.json(toChatCompletion(head, answer));
    },
  });
}

function toChatCompletion(head: Head, { text, finishReason, usage }: Answer): ChatCompletion {
  const message = { role: 'assistant' as const, content: text, refusal: null };
  return {
    ...head,
    object: 'chat.completion',
    choices: [{ index: 0, message, logprobs: null, finish_reason: finishReason }],
    usage: toUsage([usage]),
  };
}

async function* chatChunks(
  events: AsyncIterable<GenerationEvent>,
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
    finish_reason: Answer['finishReason'] | null = null,
  ) => chunk([{ index: 0, delta: part, logprobs: null, finish_reason }]);
  let begun = false;
  for await (const event of events) {
    // Clients break without a role on the first chunk; it waits for the first event so that refusals come before it.
    if (!begun) yield delta({ role: 'assistant', content: '', refusal: null });
    begun = true;
    if (event.type === 'text') {
      if (event.text !== '') yield delta({ content: event.text });
      continue;
    }
    yield delta({}, event.finishReason);
    if (includeUsage) yield chunk([], toUsage([event.usage]));
    onEnd();
  }
}
