import { z } from 'zod';
import { HttpError, type Violation } from '../../../http/error.ts';
import { defineRoute, type Route } from '../../../http/route.ts';
import { eventStreamType, streamResponse } from '../../../http/stream.ts';
import { invalidBodyError } from '../../../http/violations.ts';
import { responseEvent, responseObject } from '../../../wires/responses/answer-schema.ts';
import { deletedResponse, inputItemList } from '../../../wires/responses/resource-schema.ts';
import { openaiErrorResponse } from '../../error-schema.ts';
import type { BackgroundResponses } from './background.ts';
import type { ResponseStore, StoredItem } from './response-store.ts';

const path = '/v1/responses/{id}';
const params = { id: 'Id of a response.' };
const maxItems = 100;
const defaultItems = 20;
/** Values of `include` at OpenAI. None adds anything here. */
const includes = [
  'code_interpreter_call.outputs',
  'computer_call_output.output.image_url',
  'file_search_call.results',
  'message.input_image.image_url',
  'message.output_text.logprobs',
  'reasoning.encrypted_content',
  'web_search_call.action.sources',
  'web_search_call.results',
];

/** Routes of stored responses. @param responses undefined where the host stores none */
export function storedRoutes(
  responses: ResponseStore | undefined,
  background: BackgroundResponses | undefined,
): Route[] {
  const errors = {
    404: openaiErrorResponse(
      "No such response, or another caller's; on a host without `--store-responses` there is none.",
    ),
    503: openaiErrorResponse('The database cannot be read or written.'),
  };
  const find = (id = ''): ResponseStore => {
    if (responses) return responses;
    throw new HttpError(
      404,
      'response_not_found',
      `There is no response '${id.slice(0, 100)}': this host stores none. Start it with --store-responses, or keep what ` +
        'POST /v1/responses answers and send the whole conversation with the next request.',
    );
  };
  return [
    defineRoute({
      method: 'GET',
      path,
      operationId: 'getResponse',
      summary: 'A stored response',
      params,
      query: {
        stream: 'true: the events of a response that was created with `background` and `stream`.',
        starting_after: '`sequence_number` of the last event that you received.',
        include: 'Accepted; the response is always complete.',
        include_obfuscation: 'No effect: nothing is obfuscated.',
      },
      responses: {
        200: {
          description: 'The response; with `stream=true`, its events.',
          content: { 'application/json': responseObject, 'text/event-stream': responseEvent },
        },
        ...errors,
      },
      async handle({ params: { id = '' }, query, by }) {
        const response = await find(id).get(id, by);
        const after = readStartingAfter(query);
        if (query.get('stream') !== 'true') return Response.json(response);
        const run = background?.find(id);
        const events = run?.keepsEvents ? run.read(after) : replay(await find(id).events(id, by), after);
        return await streamResponse(toFrames(events), {
          contentType: eventStreamType,
          failureFrame: () => '',
        });
      },
    }),
    defineRoute({
      method: 'DELETE',
      path,
      operationId: 'deleteResponse',
      summary: 'Delete a stored response with its input items',
      description:
        'What it contained is also removed from the bytes of an SQLite database. Responses that continue it stay, but ' +
        'cannot be continued themselves.',
      params,
      responses: {
        200: { description: 'It was deleted.', content: { 'application/json': deletedResponse } },
        ...errors,
      },
      async handle({ params: { id = '' }, by }) {
        const run = background?.find(id);
        // Only its owner may end it.
        if (run) await find(id).get(id, by);
        run?.cancel();
        await run?.done;
        await find(id).delete(id, by);
        return Response.json({ id, object: 'response', deleted: true });
      },
    }),
    defineRoute({
      method: 'POST',
      path: `${path}/cancel`,
      operationId: 'cancelResponse',
      summary: 'Cancel a response that is answered in the background',
      description: 'A response that is finished stays as it is.',
      params,
      responses: {
        200: { description: 'The response.', content: { 'application/json': responseObject } },
        400: openaiErrorResponse('It was not created with `background`.'),
        409: openaiErrorResponse('Another host that shares the database answers it.'),
        ...errors,
      },
      async handle({ params: { id = '' }, by }) {
        const { background: isBackground, status } = await find(id).get(id, by);
        if (!isBackground)
          throw new HttpError(
            400,
            'invalid_value',
            `'${id}' was not created with \`background\`, so it cannot be canceled.`,
          );
        const run = background?.find(id);
        if (!run && (status === 'queued' || status === 'in_progress'))
          throw new HttpError(
            409,
            'answered_elsewhere',
            `'${id}' is answered by another host; cancel it there.`,
          );
        run?.cancel();
        await run?.done;
        return Response.json(await find(id).get(id, by));
      },
    }),
    defineRoute({
      method: 'GET',
      path: `${path}/input_items`,
      operationId: 'listInputItems',
      summary: 'The items that a stored response was made from',
      description: 'Those of the responses that it continues come first, as far as they are still stored.',
      params,
      query: {
        limit: z.int().min(1).max(maxItems).optional().describe(`Most items. Default ${defaultItems}.`),
        order: z.enum(['asc', 'desc']).optional().describe('`desc`, the default: the newest first.'),
        after: 'Id of an item: list those after it.',
        include: 'Accepted; the items are always complete.',
      },
      responses: {
        200: { description: 'A page of items.', content: { 'application/json': inputItemList } },
        ...errors,
      },
      async handle({ params: { id = '' }, query, by }) {
        const page = readPage(query);
        const items = [...(await find(id).inputItems(id, by))];
        return Response.json(pageOf(page.order === 'asc' ? items : items.reverse(), page));
      },
    }),
  ];
}

/** @throws HttpError 400 */
function readStartingAfter(query: URLSearchParams): number {
  const text = query.get('starting_after');
  if (text === null) return -1;
  if (/^\d{1,9}$/.test(text)) return Number(text);
  throw invalidBodyError([
    { path: 'starting_after', message: `expected a whole number, got '${text.slice(0, 40)}'` },
  ]);
}

/** @throws HttpError 400 where the events were not kept */
function replay(events: readonly string[] | undefined, after: number): readonly string[] {
  if (events) return events.slice(after + 1);
  throw invalidBodyError([
    { path: 'stream', message: 'this response was not created with `background` and `stream`' },
  ]);
}

/** Writes events, JSON, as server-sent events. */
export async function* toFrames(
  events: AsyncIterable<string> | Iterable<string>,
): AsyncGenerator<string, void, undefined> {
  for await (const event of events) {
    const { type } = JSON.parse(event) as { readonly type: string };
    yield `event: ${type}\ndata: ${event}\n\n`;
  }
}

interface Page {
  readonly limit: number;
  readonly order: 'asc' | 'desc';
  readonly after: string | undefined;
}

/** @throws HttpError 400 with every violation */
function readPage(query: URLSearchParams): Page {
  const violations: Violation[] = [];
  const limit = query.get('limit') ?? String(defaultItems);
  const isLimit = /^\d{1,3}$/.test(limit) && Number(limit) >= 1 && Number(limit) <= maxItems;
  if (!isLimit)
    violations.push({
      path: 'limit',
      message: `expected a whole number from 1 to ${maxItems}, got '${limit.slice(0, 40)}'`,
    });
  const order = query.get('order') ?? 'desc';
  if (order !== 'asc' && order !== 'desc')
    violations.push({ path: 'order', message: `expected asc or desc, got '${order.slice(0, 40)}'` });
  for (const name of [...query.getAll('include'), ...query.getAll('include[]')])
    if (!includes.includes(name))
      violations.push({
        path: 'include',
        message: `expected one of ${includes.join(', ')}, got '${name.slice(0, 40)}'`,
      });
  if (violations.length > 0) throw invalidBodyError(violations);
  return {
    limit: Number(limit),
    order: order === 'asc' ? order : 'desc',
    after: query.get('after') ?? undefined,
  };
}

function pageOf(items: readonly StoredItem[], { limit, after }: Page): object {
  const index = after === undefined ? -1 : items.findIndex(({ id }) => id === after);
  if (after !== undefined && index === -1)
    throw invalidBodyError([
      { path: 'after', message: `no item of this response has the id '${after.slice(0, 100)}'` },
    ]);
  const data = items.slice(index + 1, index + 1 + limit);
  return {
    object: 'list',
    data,
    first_id: data[0]?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
    has_more: index + 1 + limit < items.length,
  };
}
