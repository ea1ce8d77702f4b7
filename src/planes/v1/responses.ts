import { openaiRefusal, openaiRefusals } from '../error-schema.ts';
import { HttpError } from '../../http/error.ts';
import type { Resident } from '../resident.ts';
import { defineRoute, type Route } from '../../http/route.ts';
import { responsesWire } from '../../wires/responses/client.ts';
import { startChat } from '../turn/chat.ts';
import { answerLimit } from '../turn/encode.ts';
import { randomSeed } from '../turn/identity.ts';
import { aboutOf, respond } from '../turn/respond.ts';
import { toSampling, toStops } from '../turn/sampling.ts';
import { toolAtFault } from '../turn/strict-tools.ts';
import { namingGrammar } from './grammar-refusal.ts';
import { toChatInput } from './responses-input.ts';
import { type ResponseRequest, responseRequest } from '../../wires/responses/server-schema.ts';
import { responseEvent, responseObject } from '../../wires/responses/answer-schema.ts';

const path = '/v1/responses';

export function responsesRoutes(resident: Resident): Route[] {
  return [createRoute(resident), ...storedRoutes()];
}

function createRoute(resident: Resident): Route {
  return defineRoute({
    method: 'POST',
    path,
    operationId: 'createResponse',
    summary: 'Answer a conversation of items',
    description:
      "OpenAI's responses, buffered or as server-sent events, without state: nothing is stored, so every request has " +
      'the whole conversation, tool calls and their outputs included. Unknown members are ignored.',
    body: responseRequest,
    completion: { wire: 'responses', operation: 'chat' },
    answers: {
      200: {
        description: 'The answer; with `stream`, the events that lead to it.',
        content: { 'application/json': responseObject, 'text/event-stream': responseEvent },
      },
      ...openaiRefusals,
    },
    async handle({ body, signal, over, asHttpError, work }) {
      const ready = await resident.use(body.model, { signal, over, work }, 'generate');
      const { model, tokenizer } = ready.engine;
      const logprobs = body.top_logprobs || body.include?.includes('message.output_text.logprobs');
      const ask = {
        input: toChatInput(body),
        sampling: toSampling(body, tokenizer.vocabSize, randomSeed),
        stop: toStops(body.stop),
        maxTokens: (prompt: number) =>
          answerLimit(prompt, model.contextLength, 'messages', body.max_output_tokens),
        ...(logprobs ? { logprobs: body.top_logprobs ?? 0 } : {}),
      };
      const { events } = await startChat(ready, ask, signal, work).catch((error: unknown) => {
        throw namingGrammar(asInput(error), () => grammarMember(body));
      });
      const about = aboutOf(model, { body, facts: { includeUsage: true, answers: 1 } });
      return await respond(responsesWire, { events, about }, { stream: body.stream, asHttpError });
    },
  });
}

/** The member that the answer's grammar comes from, or what of it is at fault. */
function grammarMember({ tools, text }: ResponseRequest): string {
  const defined = (tools ?? []).map(({ strict, parameters }) => ({ strict, schema: parameters }));
  const bySchema = text?.format?.type === 'json_schema';
  return toolAtFault(defined, 'parameters') ?? (bySchema ? 'text.format.schema' : 'tools');
}

/** On this wire the conversation's member has another name. */
function asInput(error: unknown): unknown {
  if (!(error instanceof HttpError) || error.param !== 'messages') return error;
  const { status, code, message, violations, headers } = error;
  return new HttpError(status, code, message, {
    param: 'input',
    headers,
    ...(violations ? { violations } : {}),
  });
}

/** What clients do with stored responses is answered with the reason why there are none. */
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
      params: { id: "A response's id." },
      answers: { 404: openaiRefusal('This host stores no responses.') },
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
