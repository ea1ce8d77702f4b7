import { openaiErrorResponse, openaiErrorResponses } from '../error-schema.ts';
import { HttpError } from '../../http/error.ts';
import type { HostedTools } from '../../agent/hosted-tools.ts';
import type { ChatInput } from '../../chat/index.ts';
import type { Resident } from '../resident.ts';
import { defineRoute, type Route } from '../../http/route.ts';
import type { AnswerBatches } from '../../wires/core/backend.ts';
import { responsesWire } from '../../wires/responses/client.ts';
import { startChat } from '../turn/chat.ts';
import { resolveMaxTokens } from '../turn/encode.ts';
import { randomSeed } from '../turn/identity.ts';
import { createAnswerMetadata, respond } from '../turn/respond.ts';
import { toSampling, toStops } from '../turn/sampling.ts';
import { recordConversation } from '../turn/transcript.ts';
import { findUnenforceableTool } from '../turn/strict-tools.ts';
import { withGrammarMember } from './grammar-error.ts';
import { answerWithHostedTools } from './hosted-rounds.ts';
import { HostedSession } from './hosted-session.ts';
import { readRequest } from './responses-input.ts';
import { type ResponseRequest, responseRequest } from '../../wires/responses/server-schema.ts';
import { responseEvent, responseObject } from '../../wires/responses/answer-schema.ts';

const path = '/v1/responses';

/** @param hostedTools undefined where the host runs no agents, and so no MCP servers */
export function responsesRoutes(resident: Resident, hostedTools: HostedTools | undefined): Route[] {
  return [createRoute(resident, hostedTools), ...storedRoutes()];
}

function createRoute(resident: Resident, hostedTools: HostedTools | undefined): Route {
  return defineRoute({
    method: 'POST',
    path,
    operationId: 'createResponse',
    summary: 'Answer a conversation of items',
    description:
      "OpenAI's responses, buffered or as server-sent events. Nothing is stored, so every request must contain " +
      'the whole conversation, tool calls and their outputs included. Tools of type `mcp` name MCP servers of the host, ' +
      'which calls them itself; a call that needs approval is a pending change until an `mcp_approval_response` or a person ' +
      'decides it. A token with a scope needs `agent` for them, and `approve` to approve calls. Unknown members are ignored.',
    body: responseRequest,
    completion: { wire: 'responses', operation: 'chat' },
    responses: {
      200: {
        description: 'The answer; with `stream`, its events.',
        content: { 'application/json': responseObject, 'text/event-stream': responseEvent },
      },
      ...openaiErrorResponses,
    },
    async handle({ body, signal, finished, asHttpError, span, by, scope }) {
      const session = await HostedSession.open(body, hostedTools, { by, scope, signal });
      const ready = await resident.acquire(body.model, { signal, finished, span }, 'generate');
      const { model, tokenizer } = ready.engine;
      const logprobs = body.top_logprobs || body.include?.includes('message.output_text.logprobs');
      const options = {
        sampling: toSampling(body, tokenizer.vocabSize, randomSeed),
        stop: toStops(body.stop),
        ...(logprobs ? { logprobs: body.top_logprobs ?? 0 } : {}),
      };
      const start = async (input: ChatInput, limit: number | null | undefined, traced?: typeof span) => {
        const maxTokens = (prompt: number) =>
          resolveMaxTokens(prompt, model.contextLength, 'messages', limit);
        const { events } = await startChat(ready, { ...options, input, maxTokens }, signal, traced).catch(
          (error: unknown) => {
            throw withGrammarMember(withInputParam(error), () => grammarMember(body));
          },
        );
        return events;
      };
      const { max_output_tokens: maxTokens, max_tool_calls: maxCalls } = body;
      let request = readRequest(body, session);
      let events: AnswerBatches;
      if (session) {
        // The whole request was read before any call is made.
        const decided = await session.decide();
        if (decided.length > 0) request = readRequest(body, session);
        recordConversation(span, request.input);
        const first = await start(request.input, maxTokens);
        events = answerWithHostedTools(first, {
          ...request,
          session,
          decided,
          span,
          start,
          maxTokens,
          maxCalls,
        });
      } else events = await start(request.input, maxTokens, span);
      const metadata = createAnswerMetadata(model, { body, facts: { includeUsage: true, answers: 1 } });
      return await respond(responsesWire, { events, metadata }, { stream: body.stream, asHttpError });
    },
  });
}

/** The request member that the grammar comes from, or the tool schema that cannot be enforced. */
function grammarMember({ tools, text }: ResponseRequest): string {
  const defined = (tools ?? []).map((tool) =>
    tool.type === 'function'
      ? { strict: tool.strict, schema: tool.parameters }
      : { strict: undefined, schema: undefined },
  );
  const bySchema = text?.format?.type === 'json_schema';
  return findUnenforceableTool(defined, 'parameters') ?? (bySchema ? 'text.format.schema' : 'tools');
}

/** On this wire the conversation is in the member `input`. */
function withInputParam(error: unknown): unknown {
  if (!(error instanceof HttpError) || error.param !== 'messages') return error;
  const { status, code, message, violations, headers } = error;
  return new HttpError(status, code, message, {
    param: 'input',
    headers,
    ...(violations ? { violations } : {}),
  });
}

/** Routes for stored responses, which always refuse with the reason. */
function storedRoutes(): Route[] {
  const methods = [
    { method: 'GET', operationId: 'getResponse', summary: 'Always refused: no response is stored' },
    {
      method: 'DELETE',
      operationId: 'deleteResponse',
      summary: 'Always refused: nothing is there to delete',
    },
  ] as const;
  return methods.map((route) =>
    defineRoute({
      ...route,
      path: `${path}/{id}`,
      params: { id: 'Id of a response.' },
      responses: { 404: openaiErrorResponse('This host stores no responses.') },
      handle({ params }) {
        throw new HttpError(
          404,
          'response_not_found',
          `There is no response '${params['id']?.slice(0, 100)}': this host stores none. Keep what POST ${path} answers, and send the whole conversation with the next request.`,
        );
      },
    }),
  );
}
