import { z } from 'zod';
import type { Json } from '../util/json.ts';
import type { AnswerSpec, DocumentedRoute, Gate, Plane, Route } from './route.ts';
import { described } from './schema/list.ts';

const uri = '#/components/schemas/';

/** The parts of the document that do not come from routes. */
export interface DocumentHead {
  readonly info: { readonly title: string; readonly version: string; readonly description: string };
  readonly tags?: readonly Json[];
  readonly securitySchemes: Readonly<Record<string, Json>>;
  /** Headers of every response, with descriptions or schemas. */
  readonly headers: NonNullable<DocumentedRoute['headers']>;
}

/** A route as one listener serves it. */
export interface Operation extends DocumentedRoute {
  readonly operationId?: string;
  readonly tag?: string;
  /** Security schemes, any one of which is sufficient. Empty: no authentication. */
  readonly security: readonly string[];
  readonly errorSchema: z.ZodType;
  /** Descriptions of error responses by status, in addition to those of the body. */
  readonly refusals: Readonly<Record<number, string>>;
}

/** Writes the OpenAPI document, from the same schemas that validate requests. */
export function writeDocument(
  { headers, securitySchemes, ...head }: DocumentHead,
  operations: readonly Operation[],
) {
  const paths: Record<string, Record<string, object>> = {};
  const named: Record<string, unknown> = {};
  const answerHeaders = Object.fromEntries(
    Object.entries(headers).map(([name, about]) => [name, texted(about)]),
  );
  for (const one of operations)
    (paths[one.path] ??= {})[one.method.toLowerCase()] = operation(one, answerHeaders, named);
  const schemas = Object.fromEntries(Object.entries(named).sort(([a], [b]) => a.localeCompare(b)));
  return { openapi: '3.1.0', ...head, paths, components: { schemas, securitySchemes } };
}

/**
 * Writes the OpenAPI document of the planes.
 * @param needsScope whether a peer token with a scope may lack the scope that a route needs
 */
export const openapiDocument = (
  planes: readonly Plane[],
  version: string,
  needsScope: (plane: Plane, route: Route) => boolean = () => true,
) =>
  writeDocument(
    {
      info: { title: 'lathe', version, description: 'A WebGPU-first inference host with a kernel lab.' },
      tags: planes.map(({ name, summary }) => ({ name, description: summary })),
      // Beyond loopback, every route except the two liveness routes also requires the bearer token.
      securitySchemes: {
        bearer: { type: 'http', scheme: 'bearer' },
        operator: { type: 'apiKey', in: 'header', name: 'x-svc-operator' },
      } satisfies Readonly<Record<Gate, Json>>,
      headers: { 'x-request-id': 'Names the request.' },
    },
    planes.flatMap((plane) =>
      plane.routes.map((route): Operation => {
        const gate = route.gate ?? plane.gate;
        return {
          ...route,
          tag: plane.name,
          security: gate ? [gate] : [],
          errorSchema: plane.errorSchema,
          refusals: {
            ...(gate ? { 401: `The ${gate}'s credential is missing or wrong.` } : {}),
            ...(gate === 'bearer' && needsScope(plane, route)
              ? { 403: "The peer's token lacks the scope that is named." }
              : {}),
            ...(isOpenToForms(route) ? { 403: 'A page of another origin sent it.' } : {}),
          },
        };
      }),
    ),
  );

/** Whether an HTML form on another site can send a request to the route. */
const isOpenToForms = ({ method, body, bodyOptional, rawBody, textBody, looseBody }: Route): boolean =>
  Boolean(rawBody || textBody || looseBody || (method === 'POST' && (!body || bodyOptional)));

function operation(about: Operation, headers: Json, named: Record<string, unknown>): Json {
  const { tag, security, errorSchema, body, rawBody, textBody } = about;
  const content = (types: Readonly<Record<string, z.ZodType>>) =>
    Object.fromEntries(
      Object.entries(types).map(([type, schema]) => [
        type,
        { schema: { $ref: uri + nameIn(named, schema) } },
      ]),
    );
  const parameters = [
    ...placed('path', about.params),
    ...placed('query', about.query),
    ...placed('header', about.headers),
  ];
  const refusals: Operation['refusals'] = {
    ...(body || rawBody || textBody ? { 413: 'The body is too large.' } : {}),
    ...(textBody ? { 415: 'The body is not text/plain.' } : {}),
    ...(body
      ? { 400: 'The body is malformed; every violation is named.', 415: 'The body is not application/json.' }
      : {}),
    ...about.refusals,
  };
  const answers = Object.entries<string | AnswerSpec>({ ...refusals, ...about.answers });
  return {
    operationId: about.operationId,
    tags: tag === undefined ? undefined : [tag],
    summary: about.summary,
    description: about.description,
    parameters: parameters.length > 0 ? parameters : undefined,
    security: security.length > 0 ? security.map((scheme) => ({ [scheme]: [] })) : undefined,
    requestBody: body
      ? { required: !about.bodyOptional, content: content({ 'application/json': body }) }
      : textBody
        ? { content: { 'text/plain': { schema: { type: 'string' } } } }
        : rawBody && {
            description: `Any bytes, at most ${rawBody.limitBytes}.`,
            content: { 'application/octet-stream': {} },
          },
    responses: Object.fromEntries(
      answers.map(([status, said]) => {
        const answer =
          typeof said === 'string'
            ? { description: said, content: { 'application/json': errorSchema } }
            : said;
        return [
          status,
          { description: answer.description, headers, content: answer.content && content(answer.content) },
        ];
      }),
    ),
  };
}

const placed = (place: 'path' | 'query' | 'header', named: DocumentedRoute['headers'] = {}) =>
  Object.entries(named).map(([name, about]) => ({
    name,
    in: place,
    required: place === 'path',
    ...texted(about),
  }));

/** Description and schema of a parameter or header. */
function texted(about: string | z.ZodType): Json {
  const { description, ...schema } = described(
    typeof about === 'string' ? z.string().describe(about) : about,
  );
  return { description, schema };
}

/** Registers a schema and the named schemas within it under `components`, and returns its name. */
function nameIn(named: Record<string, unknown>, schema: z.ZodType): string {
  const name = schema.meta()?.id;
  if (name === undefined) throw new Error('a schema of a route has no id: add .meta({ id })');
  if (name in named) return name;
  const { $defs = {}, ...own } = described(schema);
  // A recursive schema is among its own definitions.
  for (const [id, { id: _, ...definition }] of Object.entries({ [name]: own, ...$defs }))
    named[id] ??= JSON.parse(JSON.stringify(definition).replaceAll('"#/$defs/', `"${uri}`)) as unknown;
  return name;
}
