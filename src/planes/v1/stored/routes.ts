import { z } from 'zod';
import { HttpError, type Violation } from '../../../http/error.ts';
import { defineRoute, type Route } from '../../../http/route.ts';
import { invalidBodyError } from '../../../http/violations.ts';
import { responseObject } from '../../../wires/responses/answer-schema.ts';
import { deletedResponse, inputItemList } from '../../../wires/responses/resource-schema.ts';
import { openaiErrorResponse } from '../../error-schema.ts';
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
export function storedRoutes(responses: ResponseStore | undefined): Route[] {
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
      responses: {
        200: { description: 'The response.', content: { 'application/json': responseObject } },
        ...errors,
      },
      async handle({ params: { id = '' }, by }) {
        return Response.json(await find(id).get(id, by));
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
        await find(id).delete(id, by);
        return Response.json({ id, object: 'response', deleted: true });
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
