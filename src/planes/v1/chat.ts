import { invalidBodyError } from '../../http/violations.ts';
import { openaiErrorResponses } from '../error-schema.ts';
import type { Resident } from '../resident.ts';
import { defineRoute } from '../../http/route.ts';
import { maxTokensPerAnswer } from '../turn/answer-limits.ts';
import { chatWire } from '../../wires/chat/client.ts';
import { startChat } from '../turn/chat.ts';
import { resolveMaxTokens } from '../turn/encode.ts';
import { randomSeed } from '../turn/identity.ts';
import { createAnswerMetadata, type AnswerStream, respond, type CompletionContext } from '../turn/respond.ts';
import { toSampling, toStops } from '../turn/sampling.ts';
import { findUnenforceableTool } from '../turn/strict-tools.ts';
import { chatChunk, chatCompletion } from '../../wires/chat/answer-schema.ts';
import { findChatViolations, toChatInput } from './chat-input.ts';
import { type ChatRequest, chatRequest } from '../../wires/chat/server-schema.ts';
import { withGrammarMember } from './grammar-error.ts';
import { toOutputConstraint } from './output.ts';
import { cacheOption, progressOption } from '../../wires/core/sampling-schema.ts';

export function chatRoute(resident: Resident) {
  return defineRoute({
    method: 'POST',
    path: '/v1/chat/completions',
    operationId: 'createChatCompletion',
    summary: 'Continue a conversation',
    description: "OpenAI's chat completions, buffered or as server-sent events. Unknown members are ignored.",
    body: chatRequest,
    completion: { wire: 'chat', operation: 'chat' },
    responses: {
      200: {
        description: 'The answer; with `stream`, chunks as events and then `[DONE]`.',
        content: { 'application/json': chatCompletion, 'text/event-stream': chatChunk },
      },
      ...openaiErrorResponses,
    },
    async handle({ body, asHttpError, ...context }) {
      const answerStream = await answerChat(resident, body, context);
      return await respond(chatWire, answerStream, { stream: body.stream, asHttpError });
    },
  });
}

/** Starts the answers. @throws HttpError */
export async function answerChat(
  resident: Resident,
  body: ChatRequest,
  { signal, finished, span }: CompletionContext,
): Promise<AnswerStream> {
  const ready = await resident.acquire(body.model, { signal, finished, span }, 'generate');
  const { model, tokenizer } = ready.engine;
  const violations = findChatViolations(body);
  if (violations.length > 0) throw invalidBodyError(violations);
  const n = body.n ?? 1;
  const tokens = body.max_completion_tokens ?? body.max_tokens;
  const answerMaxTokens = maxTokensPerAnswer({ answers: n, member: 'n', tokens }, model.contextLength);
  const sampling = toSampling(body, tokenizer, randomSeed);
  const { events } = await startChat(
    ready,
    {
      input: toChatInput(body),
      n,
      sampling,
      stop: toStops(body.stop),
      maxTokens: (prompt) =>
        resolveMaxTokens(prompt, model.contextLength, 'messages', tokens, answerMaxTokens),
      ...(body.logprobs
        ? { logprobs: body.top_logprobs ?? 0, postSampling: body.post_sampling_probs ?? false }
        : {}),
      ...(body.ignore_eos ? { ignoreEnd: true } : {}),
      ...cacheOption(body),
      ...progressOption(body),
    },
    signal,
    span,
  ).catch((error: unknown) => {
    throw withGrammarMember(error, () => grammarMember(body));
  });
  const includeUsage = body.stream_options?.include_usage ?? false;
  const metadata = createAnswerMetadata(model, { body, facts: { includeUsage, answers: n } });
  return { events, metadata, seed: sampling.seed };
}

/** The request member that the grammar comes from, or the tool schema that cannot be enforced. */
function grammarMember(body: ChatRequest): string {
  const tools = (body.tools ?? []).map(({ function: { strict, parameters } }) => ({
    strict,
    schema: parameters,
  }));
  return findUnenforceableTool(tools, 'function.parameters') ?? toOutputConstraint(body)?.member ?? 'tools';
}
