import { z } from 'zod';
import type { Observe } from '../../observe/open.ts';
import { observeQuery } from '../../observe/query/shape.ts';
import { hostError } from '../error-schema.ts';
import { described } from '../../http/schema/list.ts';
import { hostEnvelope } from '../../http/error.ts';
import { defineRoute, type Plane } from '../../http/route.ts';
import { refusing } from './refusal.ts';
import { observeEnvelope, surfaceList, surfaceSchema } from './schema.ts';

const json = (description: string, schema: z.ZodType) => ({
  description,
  content: { 'application/json': schema },
});
const refusal = (description: string) => json(description, hostError);
const refusals = {
  400: refusal('All that is wrong with the query, by its path.'),
  422: refusal('It takes too long or gives too much; the message says how to narrow it.'),
  503: refusal('The database cannot be read, or many queries wait; `Retry-After` tells when to ask again.'),
};
/** A query is a page of JSON at the most. */
const jsonLimitBytes = 256 * 1024;

/** Looks at everything and changes nothing. The bearer on loopback too. */
export function observePlane(observe: Pick<Observe, 'surfaces' | 'schema' | 'query' | 'ask'>): Plane {
  const surfaces = defineRoute({
    method: 'GET',
    path: '/observe/v1/surfaces',
    operationId: 'listSurfaces',
    summary: 'What can be queried, and the named questions',
    answers: { 200: json('Surfaces and questions.', surfaceList) },
    handle: () => Response.json(observe.surfaces()),
  });
  const schema = defineRoute({
    method: 'GET',
    path: '/observe/v1/surfaces/{surface}/schema',
    operationId: 'getSurfaceSchema',
    summary: 'The columns of a surface',
    params: { surface: 'As GET /observe/v1/surfaces lists it.' },
    answers: {
      200: json('Columns with types, units, provenance and operators.', surfaceSchema),
      404: refusal('There is no such surface.'),
    },
    handle: ({ params }) => Response.json(observe.schema(params['surface'] ?? '')),
  });
  const query = defineRoute({
    method: 'POST',
    path: '/observe/v1/query',
    operationId: 'queryObserved',
    summary: 'Query a surface',
    description: 'At most 1,000 rows and one second. Pages of a query follow one another by its `cursor`.',
    // Checked by the observe plane itself, which knows the columns: all that is wrong at once.
    body: z.unknown().meta({ ...described(observeQuery), id: 'ObserveQuery' }),
    jsonLimitBytes,
    answers: { 200: json('The rows, and what they cover.', observeEnvelope), ...refusals },
    handle: async ({ body, by }) => Response.json(await observe.query(body, by)),
  });
  const ask = defineRoute({
    method: 'POST',
    path: '/observe/v1/questions/{name}',
    operationId: 'askQuestion',
    summary: 'A named question',
    description: 'A query that is kept by name; the `parameters` are listed with it.',
    params: { name: 'As GET /observe/v1/surfaces lists it.' },
    body: z.unknown().meta({
      id: 'AskedQuestion',
      type: 'object',
      properties: { parameters: { type: 'object' }, limit: { type: 'integer' }, cursor: { type: 'string' } },
    }),
    bodyOptional: true,
    jsonLimitBytes,
    answers: {
      200: json('The rows, and what they cover.', observeEnvelope),
      404: refusal('There is no such question.'),
      ...refusals,
    },
    handle: async ({ params, body, by }) => Response.json(await observe.ask(params['name'] ?? '', body, by)),
  });
  return {
    name: 'observe',
    summary: 'Queries over everything that the host did. Read-only; the bearer on loopback too.',
    prefixes: ['/observe'],
    envelope: hostEnvelope,
    errorSchema: hostError,
    gate: 'bearer',
    routes: refusing([surfaces, schema, query, ask]),
  };
}
