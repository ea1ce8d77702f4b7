import { z } from 'zod';
import type { Json } from '../util/json.ts';
import type { Gate } from './route.ts';
import type { AnswerSpec, Plane, Route } from './route.ts';

const uri = (id: string) => `#/components/schemas/${id}`;

/** The OpenAPI document of the planes, from the same schemas that check the requests. */
/** @param needsScope whether a peer's token with a scope may lack what a route needs */
export function openapiDocument(
  planes: readonly Plane[],
  version: string,
  needsScope: (plane: Plane, route: Route) => boolean = () => true,
): Json {
  const schemas = namedSchemas(planes);
  const paths: Record<string, Record<string, unknown>> = {};
  for (const plane of planes) {
    for (const route of plane.routes) {
      const operations = (paths[route.path] ??= {});
      operations[route.method.toLowerCase()] = operation(plane, route, needsScope(plane, route));
    }
  }
  return {
    openapi: '3.1.0',
    info: { title: 'lathe', version, description: 'A WebGPU-first inference host with a kernel lab.' },
    tags: planes.map(({ name, summary }) => ({ name, description: summary })),
    paths,
    components: { schemas, securitySchemes },
  };
}

/** Beyond loopback, every route but the two of liveness needs the bearer as well. */
const securitySchemes = {
  bearer: { type: 'http', scheme: 'bearer' },
  operator: { type: 'apiKey', in: 'header', name: 'x-svc-operator' },
} satisfies Readonly<Record<Gate, Json>>;

function operation(plane: Plane, route: Route, needsScope: boolean): Json {
  const errorContent = { 'application/json': plane.errorSchema };
  const gate = route.gate ?? plane.gate;
  const refusals: Record<number, AnswerSpec> = {
    ...(gate
      ? { 401: { description: `The ${gate}'s credential is missing or wrong.`, content: errorContent } }
      : {}),
    ...(gate === 'bearer' && needsScope
      ? { 403: { description: "The peer's token lacks the scope that is named.", content: errorContent } }
      : {}),
    ...(route.body
      ? {
          400: { description: 'The body is malformed; every violation is named.', content: errorContent },
          415: { description: 'The body is not application/json.', content: errorContent },
        }
      : {}),
    ...(route.body || route.rawBody || route.textBody
      ? { 413: { description: 'The body is too large.', content: errorContent } }
      : {}),
    ...(route.textBody ? { 415: { description: 'The body is not text/plain.', content: errorContent } } : {}),
    ...(route.rawBody || route.textBody || route.looseBody || (route.method === 'POST' && mayBeEmpty(route))
      ? { 403: { description: 'A page of another origin sent it.', content: errorContent } }
      : {}),
  };
  const placed = [
    ...parameters('path', route.params),
    ...parameters('query', route.query),
    ...parameters('header', route.headers),
  ];
  const answers = Object.entries<AnswerSpec>({ ...refusals, ...route.answers });
  return {
    operationId: route.operationId,
    tags: [plane.name],
    summary: route.summary,
    ...(route.description ? { description: route.description } : {}),
    ...(placed.length > 0 ? { parameters: placed } : {}),
    ...(gate ? { security: [{ [gate]: [] }] } : {}),
    ...requestBody(route),
    responses: Object.fromEntries(
      answers.map(([status, answer]) => [
        status,
        {
          description: answer.description,
          headers: { 'x-request-id': { description: 'Names the request.', schema: { type: 'string' } } },
          ...(answer.content ? { content: content(answer.content) } : {}),
        },
      ]),
    ),
  };
}

/** What a form of another page can send as well. */
const mayBeEmpty = ({ body, bodyOptional }: Route): boolean => !body || bodyOptional === true;

function requestBody({ body, bodyOptional, rawBody, textBody }: Route): Json {
  if (body)
    return { requestBody: { required: !bodyOptional, content: content({ 'application/json': body }) } };
  if (textBody) return { requestBody: { content: { 'text/plain': { schema: { type: 'string' } } } } };
  if (!rawBody) return {};
  const description = `Any bytes, at most ${rawBody.limitBytes}.`;
  return { requestBody: { description, content: { 'application/octet-stream': {} } } };
}

const parameters = (place: 'path' | 'query' | 'header', named: Readonly<Record<string, string>> = {}) =>
  Object.entries(named).map(([name, description]) => ({
    name,
    in: place,
    required: place === 'path',
    description,
    schema: { type: 'string' },
  }));

/** Bodies are named schemas, so that a document's reader meets each once. */
const content = (types: Readonly<Record<string, z.ZodType>>) =>
  Object.fromEntries(
    Object.entries(types).map(([type, schema]) => [type, { schema: { $ref: uri(idOf(schema)) } }]),
  );

function idOf(schema: z.ZodType): string {
  const id = schema.meta()?.id;
  if (id === undefined) throw new Error('a schema of a route has no id: add .meta({ id })');
  return id;
}

function namedSchemas(planes: readonly Plane[]): Record<string, unknown> {
  const used = planes.flatMap((plane) => [
    plane.errorSchema,
    ...plane.routes.flatMap((route) => [
      ...(route.body ? [route.body] : []),
      ...Object.values(route.answers).flatMap((answer) => Object.values(answer.content ?? {})),
    ]),
  ]);
  const named: Record<string, unknown> = {};
  for (const schema of new Set(used)) {
    // A schema with an id becomes a definition, itself included.
    const { $defs } = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any', reused: 'inline' });
    for (const [id, { id: _, ...definition }] of Object.entries($defs ?? {}))
      named[id] ??= hoisted(definition);
    if (!(idOf(schema) in named)) {
      const {
        $schema: _,
        $defs: __,
        id: ___,
        ...definition
      } = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' });
      named[idOf(schema)] = hoisted(definition);
    }
  }
  return Object.fromEntries(Object.entries(named).sort(([a], [b]) => a.localeCompare(b)));
}

/** `#/$defs/X` to `#/components/schemas/X`. */
function hoisted(schema: unknown): unknown {
  return JSON.parse(JSON.stringify(schema).replaceAll('"#/$defs/', `"${uri('')}`)) as unknown;
}
