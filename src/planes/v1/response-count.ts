import { defineRoute, type Route } from '../../http/route.ts';
import { invalidBodyError } from '../../http/violations.ts';
import { createTokenCountRequest } from '../../wires/responses/server-schema.ts';
import { inputTokenCount } from '../../wires/responses/resource-schema.ts';
import { openaiErrorResponses } from '../error-schema.ts';
import { preparePrompt } from '../turn/chat.ts';
import { readConversation, type ResponsesOptions, withInputParam } from './response-start.ts';
import { readRequest } from './responses-input.ts';

export function countRoute(options: ResponsesOptions): Route {
  return defineRoute({
    method: 'POST',
    path: '/v1/responses/input_tokens',
    operationId: 'countResponseTokens',
    summary: 'Count the input tokens of a response',
    description:
      'Counts the prompt tokens of the same request to POST /v1/responses, by rendering the same prompt. No call is made: ' +
      'where the request approves calls of MCP tools, their outputs are not counted.',
    body: createTokenCountRequest(options.responses !== undefined),
    responses: {
      200: { description: 'The count.', content: { 'application/json': inputTokenCount } },
      ...openaiErrorResponses,
    },
    async handle({ body, by, scope, signal, finished }) {
      const { items, session } = await readConversation(options, body, { by, scope, signal });
      const { input } = readRequest(body, items, session);
      if (input.messages.length === 0)
        throw invalidBodyError([{ path: 'input', message: 'expected a text or an array of items' }]);
      const { engine } = await options.resident.acquire(body.model, { signal, finished }, 'generate');
      const { prompt } = await preparePrompt(engine, input).catch((error: unknown) => {
        throw withInputParam(error);
      });
      return Response.json({ object: 'response.input_tokens', input_tokens: prompt.length });
    },
  });
}
