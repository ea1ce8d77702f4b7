import { openaiErrorResponses } from '../error-schema.ts';
import type { HttpError } from '../../http/error.ts';
import { defineRoute, type Route } from '../../http/route.ts';
import { eventStreamType, streamResponse } from '../../http/stream.ts';
import { collectEvents } from '../../wires/core/backend.ts';
import { type ResponseObject, responseEvent, responseObject } from '../../wires/responses/answer-schema.ts';
import { responsesWire } from '../../wires/responses/client.ts';
import { sseFrame } from '../../wires/responses/events.ts';
import { withSeed } from '../turn/respond.ts';
import { createResponseRequest, type ResponseRequest } from '../../wires/responses/server-schema.ts';
import { compactRoute } from './response-compact.ts';
import { countRoute } from './response-count.ts';
import { ResponseRun } from './response-run.ts';
import { type ResponsesOptions, type StartedResponse, startResponse } from './response-start.ts';
import type { BackgroundResponses } from './stored/background.ts';
import { storedRoutes, toFrames } from './stored/routes.ts';

const path = '/v1/responses';

export function responsesRoutes(
  options: ResponsesOptions,
  background: BackgroundResponses | undefined,
): Route[] {
  return [
    createResponseRoute(options, background),
    countRoute(options),
    compactRoute(options),
    ...storedRoutes(options.responses, background),
  ];
}

export function createResponseRoute(options: ResponsesOptions, background?: BackgroundResponses): Route {
  return defineRoute({
    method: 'POST',
    path,
    operationId: 'createResponse',
    summary: 'Answer a conversation of items',
    description:
      "OpenAI's responses, buffered or as server-sent events. A host with `--store-responses` stores them for " +
      '`previous_response_id`, unless the request has `store: false`; on any other host, every request must contain the whole ' +
      'conversation, tool calls and their outputs included. Tools of type `mcp` name MCP servers of the host, ' +
      'which calls them itself; a call that needs approval is a pending change until an `mcp_approval_response` or a person ' +
      'decides it. A token with a scope needs `agent` for them, and `approve` to approve calls. Unknown members are ignored.',
    body: createResponseRequest(options.responses !== undefined),
    completion: { wire: 'responses', operation: 'chat' },
    responses: {
      200: {
        description: 'The answer; with `stream`, its events.',
        content: { 'application/json': responseObject, 'text/event-stream': responseEvent },
      },
      ...openaiErrorResponses,
    },
    async handle({ body, asHttpError, ...context }) {
      if (body.background && background)
        return await startInBackground(options, background, { body, ...context });
      const started = await startResponse(options, body, context);
      const response = body.stream
        ? await streamEvents(started, asHttpError, context.signal)
        : Response.json(await bufferResponse(started));
      return withSeed(response, started.seed);
    },
  });
}

/** The queued response, or the events of a stream that the client may leave. */
async function startInBackground(
  options: ResponsesOptions,
  background: BackgroundResponses,
  { body, ...caller }: { readonly body: ResponseRequest } & Parameters<BackgroundResponses['start']>[2],
): Promise<Response> {
  const { response, run } = await background.start(options, body, caller);
  if (!body.stream) return Response.json(response);
  const format = { contentType: eventStreamType, failureFrame: () => '' };
  return await streamResponse(toFrames(run.read(-1)), format);
}

async function bufferResponse({ events, metadata, save }: StartedResponse): Promise<object> {
  const response = responsesWire.body(await collectEvents(events), metadata);
  await save(response as ResponseObject);
  return response;
}

async function streamEvents(
  { events, metadata, save }: StartedResponse,
  asHttpError: (error: unknown) => HttpError,
  signal: AbortSignal,
): Promise<Response> {
  const run = new ResponseRun({ events, metadata, asHttpError, signal, onFinish: save });
  let sequenceNumber = 0;
  const frame = (batch: Parameters<typeof sseFrame>[0][]) =>
    batch.map((event) => sseFrame(event, sequenceNumber++)).join('');
  async function* frames(): AsyncGenerator<string, void, undefined> {
    for await (const batch of run.batches()) yield frame([...batch]);
  }
  return await streamResponse(frames(), {
    contentType: eventStreamType,
    failureFrame: (error) => frame([...run.failureEvents(asHttpError(error))]),
  });
}
