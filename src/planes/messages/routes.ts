import { HttpError } from '../../http/error.ts';
import { defineRoute, type Plane, type Route } from '../../http/route.ts';
import type { AnswerBatches } from '../../wires/core/backend.ts';
import {
  messageEvent,
  messageObject,
  messagesError,
  tokenCount,
} from '../../wires/messages/answer-schema.ts';
import { messagesWire } from '../../wires/messages/client.ts';
import { findAnswerFormat } from '../../wires/messages/facts.ts';
import { writeErrorBody, threadUnsupportedCode } from '../../wires/messages/frames.ts';
import { countRequest, type MessageRequest, messageRequest } from '../../wires/messages/request-schema.ts';
import type { Resident } from '../resident.ts';
import { preparePrompt, startChat } from '../turn/chat.ts';
import { resolveMaxTokens } from '../turn/encode.ts';
import { randomSeed } from '../turn/identity.ts';
import { createAnswerMetadata, respond } from '../turn/respond.ts';
import { toSampling } from '../turn/sampling.ts';
import { findUnenforceableTool } from '../turn/strict-tools.ts';
import { withGrammarMember } from '../v1/grammar-error.ts';
import { toChatInput } from './input.ts';

const path = '/v1/messages';
const errorResponse = (description: string) => ({
  description,
  content: { 'application/json': messagesError },
});
const errorResponses = {
  404: errorResponse('No such model.'),
  503: errorResponse('No model is resident, the model is loading, or the GPU was lost.'),
};

/** Must be mounted before the `/v1` plane, which has a different error envelope. */
export function messagesPlane(resident: Resident): Plane {
  return {
    name: 'messages',
    summary: "Anthropic's wire: messages and their token counts.",
    isPublicWire: true,
    prefixes: [path],
    envelope: writeErrorBody,
    errorSchema: messagesError,
    routes: [createRoute(resident), countRoute(resident)],
  };
}

function createRoute(resident: Resident): Route {
  return defineRoute({
    method: 'POST',
    path,
    operationId: 'createMessage',
    summary: 'Answer a conversation of content blocks',
    description:
      "Anthropic's messages, buffered or as server-sent events. Any `anthropic-version` is accepted, or none. " +
      'Unknown members and `cache_control` are ignored: common prompt prefixes are always shared.',
    body: messageRequest,
    completion: { wire: 'messages', operation: 'chat' },
    responses: {
      200: {
        description: 'The answer; with `stream`, its events.',
        content: { 'application/json': messageObject, 'text/event-stream': messageEvent },
      },
      429: errorResponse('The queue is full; `Retry-After` says when to retry.'),
      ...errorResponses,
    },
    async handle({ body, signal, finished, requestId, asHttpError, span }) {
      refuseThread(body);
      const ready = await resident.acquire(body.model, { signal, finished, span }, 'generate');
      const { model, tokenizer } = ready.engine;
      const options = {
        input: toChatInput(body),
        sampling: toSampling(
          { temperature: body.temperature, top_p: body.top_p, top_k: body.top_k },
          tokenizer,
          randomSeed,
        ),
        stop: body.stop_sequences ?? [],
        // Required on this wire, so most clients send a number that is unrelated to this model.
        maxTokens: (prompt: number) =>
          resolveMaxTokens(prompt, model.contextLength, 'messages', undefined, Math.max(1, body.max_tokens)),
        isPromptOnly: body.max_tokens === 0,
        // A stream begins with the prompt's usage.
        ...(body.stream ? { progress: true } : {}),
      };
      const { prepared, events } = await startChat(ready, options, signal, span).catch((error: unknown) => {
        throw withGrammarMember(error, () => grammarMember(body));
      });
      const mayFillContext = prepared.prompt.length + body.max_tokens > model.contextLength;
      const answerStream = {
        seed: options.sampling.seed,
        events: mayFillContext ? markContextFull(events) : events,
        metadata: {
          ...createAnswerMetadata(model, { body, facts: { includeUsage: true, answers: 1 } }),
          requestId,
        },
      };
      return await respond(messagesWire, answerStream, { stream: body.stream, asHttpError });
    },
  });
}

function refuseThread({ thread }: MessageRequest): void {
  if (thread === undefined || thread === null) return;
  const message =
    'thread: this host stores no conversations; leave it out and send all messages with every request.';
  throw new HttpError(400, threadUnsupportedCode, message, { param: 'thread' });
}

/** The request member that the grammar comes from, or the tool schema that cannot be enforced. */
function grammarMember(body: MessageRequest): string {
  const defined = (body.tools ?? []).map(({ strict, input_schema: schema }) => ({ strict, schema }));
  const format = findAnswerFormat(body);
  return findUnenforceableTool(defined, 'input_schema') ?? (format ? `${format.param}.schema` : 'tools');
}

/** Marks answers that the context ended before the request's own limit. */
async function* markContextFull(batches: AnswerBatches): AnswerBatches {
  for await (const batch of batches)
    yield batch.map((event) =>
      event.type === 'finish' && event.reason === 'length'
        ? { ...event, detail: 'model_context_window_exceeded' }
        : event,
    );
}

function countRoute(resident: Resident): Route {
  return defineRoute({
    method: 'POST',
    path: `${path}/count_tokens`,
    operationId: 'countMessageTokens',
    summary: 'Count the tokens of a conversation',
    description:
      'Counts the prompt tokens of the same request to POST /v1/messages. A prompt longer than the context is refused.',
    body: countRequest,
    responses: {
      200: { description: 'The count.', content: { 'application/json': tokenCount } },
      ...errorResponses,
    },
    async handle({ body, signal, finished }) {
      const { engine } = await resident.acquire(body.model, { signal, finished }, 'generate');
      const { prompt } = await preparePrompt(engine, toChatInput(body));
      return Response.json({ input_tokens: prompt.length });
    },
  });
}
