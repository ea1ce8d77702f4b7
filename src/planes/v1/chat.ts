import { invalidBody } from '../../http/violations.ts';
import { openaiRefusals } from '../error-schema.ts';
import type { Resident } from '../resident.ts';
import { defineRoute } from '../../http/route.ts';
import { answerShare } from '../turn/bounds.ts';
import { chatWire } from '../../wires/chat/client.ts';
import { startChat } from '../turn/chat.ts';
import { answerLimit } from '../turn/encode.ts';
import { randomSeed } from '../turn/identity.ts';
import { aboutOf, type Answered, respond, type Visit } from '../turn/respond.ts';
import { toSampling, toStops } from '../turn/sampling.ts';
import { toolAtFault } from '../turn/strict-tools.ts';
import { chatChunk, chatCompletion } from '../../wires/chat/answer-schema.ts';
import { chatViolations, toChatInput } from './chat-input.ts';
import { type ChatRequest, chatRequest } from '../../wires/chat/server-schema.ts';
import { namingGrammar } from './grammar-refusal.ts';
import { toOutput } from './output.ts';
import { progressAsked } from '../../wires/core/sampling-schema.ts';

export function chatRoute(resident: Resident) {
  return defineRoute({
    method: 'POST',
    path: '/v1/chat/completions',
    operationId: 'createChatCompletion',
    summary: 'Continue a conversation',
    description: "OpenAI's chat completions, buffered or as server-sent events. Unknown members are ignored.",
    body: chatRequest,
    completion: { wire: 'chat', operation: 'chat' },
    answers: {
      200: {
        description: 'The answer; with `stream`, chunks as events and then `[DONE]`.',
        content: { 'application/json': chatCompletion, 'text/event-stream': chatChunk },
      },
      ...openaiRefusals,
    },
    async handle({ body, asHttpError, ...visit }) {
      const answered = await answerChat(resident, body, visit);
      return await respond(chatWire, answered, { stream: body.stream, asHttpError });
    },
  });
}

/** Starts the answers. @throws HttpError */
export async function answerChat(
  resident: Resident,
  body: ChatRequest,
  { signal, over, work }: Visit,
): Promise<Answered> {
  const ready = await resident.use(body.model, { signal, over, work }, 'generate');
  const { model, tokenizer } = ready.engine;
  const wrong = chatViolations(body);
  if (wrong.length > 0) throw invalidBody(wrong);
  const n = body.n ?? 1;
  const tokens = body.max_completion_tokens ?? body.max_tokens;
  const share = answerShare({ answers: n, member: 'n', tokens }, model.contextLength);
  const { events } = await startChat(
    ready,
    {
      input: toChatInput(body),
      n,
      sampling: toSampling(body, tokenizer.vocabSize, randomSeed),
      stop: toStops(body.stop),
      maxTokens: (prompt) => answerLimit(prompt, model.contextLength, 'messages', tokens, share),
      ...(body.logprobs
        ? { logprobs: body.top_logprobs ?? 0, postSampling: body.post_sampling_probs ?? false }
        : {}),
      ...(body.ignore_eos ? { ignoreEnd: true } : {}),
      ...progressAsked(body),
    },
    signal,
    work,
  ).catch((error: unknown) => {
    throw namingGrammar(error, () => grammarMember(body));
  });
  const includeUsage = body.stream_options?.include_usage ?? false;
  return { events, about: aboutOf(model, { body, facts: { includeUsage, answers: n } }) };
}

/** The request member that the grammar comes from, or the tool schema that cannot be enforced. */
function grammarMember(body: ChatRequest): string {
  const tools = (body.tools ?? []).map(({ function: { strict, parameters } }) => ({
    strict,
    schema: parameters,
  }));
  return toolAtFault(tools, 'function.parameters') ?? toOutput(body)?.member ?? 'tools';
}
