import { z } from 'zod';
import type { Observe } from '../../observe/observe.ts';
import { observeQuery } from '../../observe/query/shape.ts';
import { hostError } from '../error-schema.ts';
import { toJsonSchema } from '../../http/schema/list.ts';
import { hostEnvelope } from '../../http/error.ts';
import { defineRoute, type Plane } from '../../http/route.ts';
import { withHttpErrors } from './http-errors.ts';
import { observeEnvelope, surfaceList, surfaceSchema } from './schema.ts';

const jsonResponse = (description: string, schema: z.ZodType) => ({
  description,
  content: { 'application/json': schema },
});
const errorResponse = (description: string) => jsonResponse(description, hostError);
const errorResponses = {
  400: errorResponse('The violations of the query, by path.'),
  422: errorResponse('The query takes too long or returns too much; the message says how to narrow it.'),
  503: errorResponse(
    'The database cannot be read, or too many queries are waiting; `Retry-After` says when to retry.',
  ),
};
/** Limit of the JSON body of a query. */
const jsonLimitBytes = 256 * 1024;

/** The read-only observe plane. It requires the bearer token on loopback too. */
export function createObservePlane(observe: Pick<Observe, 'surfaces' | 'schema' | 'query' | 'ask'>): Plane {
  const surfaces = defineRoute({
    method: 'GET',
    path: '/observe/v1/surfaces',
    operationId: 'listSurfaces',
    summary: 'List the surfaces and the named questions',
    responses: { 200: jsonResponse('Surfaces and questions.', surfaceList) },
    handle: () => Response.json(observe.surfaces()),
  });
  const schema = defineRoute({
    method: 'GET',
    path: '/observe/v1/surfaces/{surface}/schema',
    operationId: 'getSurfaceSchema',
    summary: 'Get the columns of a surface',
    params: { surface: 'A surface of GET /observe/v1/surfaces.' },
    responses: {
      200: jsonResponse('Columns with types, units, provenance and operators.', surfaceSchema),
      404: errorResponse('No surface has this name.'),
    },
    handle: ({ params }) => Response.json(observe.schema(params['surface'] ?? '')),
  });
  const query = defineRoute({
    method: 'POST',
    path: '/observe/v1/query',
    operationId: 'queryObserved',
    summary: 'Query a surface',
    description: 'Limited to 1,000 rows and one second. Use `cursor` to get the next page.',
    // The observe plane validates the body itself, because it knows the columns.
    body: z.unknown().meta({ ...toJsonSchema(observeQuery), id: 'ObserveQuery' }),
    jsonLimitBytes,
    responses: { 200: jsonResponse('The rows and their coverage.', observeEnvelope), ...errorResponses },
    handle: async ({ body, by }) => Response.json(await observe.query(body, by)),
  });
  const ask = defineRoute({
    method: 'POST',
    path: '/observe/v1/questions/{name}',
    operationId: 'askQuestion',
    summary: 'Ask a named question',
    description: 'A predefined query; its `parameters` are listed with it.',
    params: { name: 'A question of GET /observe/v1/surfaces.' },
    body: z.unknown().meta({
      id: 'AskedQuestion',
      type: 'object',
      properties: { parameters: { type: 'object' }, limit: { type: 'integer' }, cursor: { type: 'string' } },
    }),
    isBodyOptional: true,
    jsonLimitBytes,
    responses: {
      200: jsonResponse('The rows and their coverage.', observeEnvelope),
      404: errorResponse('No question has this name.'),
      ...errorResponses,
    },
    handle: async ({ params, body, by }) => Response.json(await observe.ask(params['name'] ?? '', body, by)),
  });
  return {
    name: 'observe',
    summary: 'Read-only queries over the activity of the host. Requires the bearer token, also on loopback.',
    prefixes: ['/observe'],
    envelope: hostEnvelope,
    errorSchema: hostError,
    gate: 'bearer',
    routes: withHttpErrors([surfaces, schema, query, ask]),
  };
}
