import { z } from 'zod';
import type { Json } from '../util/json.ts';
import { admissionHeaders } from './admission.ts';
import type { ResponseSpec, DocumentedRoute, Gate, Plane, Route } from './route.ts';
import { toJsonSchema } from './schema/list.ts';

const schemaPrefix = '#/components/schemas/';

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
  const schemasById: Record<string, unknown> = {};
  const responseHeaders = Object.fromEntries(
    Object.entries(headers).map(([name, about]) => [name, describeParameter(about)]),
  );
  for (const operation of operations)
    (paths[operation.path] ??= {})[operation.method.toLowerCase()] = writeOperation(
      operation,
      responseHeaders,
      schemasById,
    );
  const schemas = Object.fromEntries(Object.entries(schemasById).sort(([a], [b]) => a.localeCompare(b)));
  return { openapi: '3.1.0', ...head, paths, components: { schemas, securitySchemes } };
}

const hostInfo = { title: 'lathe', description: 'A WebGPU-first inference host with a kernel lab.' };

/**
 * Writes the OpenAPI document of the planes.
 * @param needsScope whether a peer token with a scope may lack the scope that a route needs
 * @param about title and description; default: those of the host
 */
export const openapiDocument = (
  planes: readonly Plane[],
  version: string,
  needsScope: (plane: Plane, route: Route) => boolean = () => true,
  about: Omit<DocumentHead['info'], 'version'> = hostInfo,
) =>
  writeDocument(
    {
      info: { ...about, version },
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
          ...(route.completion ? { headers: { ...admissionHeaders, ...route.headers } } : {}),
          tag: plane.name,
          security: gate ? [gate] : [],
          errorSchema: plane.errorSchema,
          refusals: {
            ...(gate ? { 401: `The ${gate}'s credential is missing or wrong.` } : {}),
            ...(gate === 'bearer' && needsScope(plane, route)
              ? { 403: "The peer's token lacks the scope that is named." }
              : {}),
            ...(route.completion ? { 408: 'The time of x-request-timeout passed.' } : {}),
            ...(isOpenToForms(route) ? { 403: 'A page of another origin sent it.' } : {}),
          },
        };
      }),
    ),
  );

/** Whether an HTML form on another site can send a request to the route. */
const isOpenToForms = ({
  method,
  body,
  isBodyOptional: bodyOptional,
  rawBody,
  textBody,
  acceptsLooseContentType: looseBody,
}: Route): boolean =>
  Boolean(rawBody || textBody || looseBody || (method === 'POST' && (!body || bodyOptional)));

function writeOperation(route: Operation, headers: Json, schemasById: Record<string, unknown>): Json {
  const { tag, security, errorSchema, body, rawBody, textBody } = route;
  const content = (types: Readonly<Record<string, z.ZodType>>) =>
    Object.fromEntries(
      Object.entries(types).map(([type, schema]) => [
        type,
        { schema: { $ref: schemaPrefix + registerSchema(schemasById, schema) } },
      ]),
    );
  const parameters = [
    ...toParameters('path', route.params),
    ...toParameters('query', route.query),
    ...toParameters('header', route.headers),
  ];
  const refusals: Operation['refusals'] = {
    ...(body || rawBody || textBody ? { 413: 'The body is too large.' } : {}),
    ...(textBody ? { 415: 'The body is not text/plain.' } : {}),
    ...(body
      ? { 400: 'The body is malformed; every violation is named.', 415: 'The body is not application/json.' }
      : {}),
    ...route.refusals,
  };
  const responses = Object.entries<string | ResponseSpec>({ ...refusals, ...route.responses });
  return {
    operationId: route.operationId,
    tags: tag === undefined ? undefined : [tag],
    summary: route.summary,
    description: route.description,
    parameters: parameters.length > 0 ? parameters : undefined,
    security: security.length > 0 ? security.map((scheme) => ({ [scheme]: [] })) : undefined,
    requestBody: body
      ? { required: !route.isBodyOptional, content: content({ 'application/json': body }) }
      : textBody
        ? { content: { 'text/plain': { schema: { type: 'string' } } } }
        : rawBody && {
            description: `Any bytes, at most ${rawBody.limitBytes}.`,
            content: { 'application/octet-stream': {} },
          },
    responses: Object.fromEntries(
      responses.map(([status, spec]) => {
        const response =
          typeof spec === 'string'
            ? { description: spec, content: { 'application/json': errorSchema } }
            : spec;
        return [
          status,
          {
            description: response.description,
            headers,
            content: response.content && content(response.content),
          },
        ];
      }),
    ),
  };
}

const toParameters = (location: 'path' | 'query' | 'header', parameters: DocumentedRoute['headers'] = {}) =>
  Object.entries(parameters).map(([name, about]) => ({
    name,
    in: location,
    required: location === 'path',
    ...describeParameter(about),
  }));

/** Description and schema of a parameter or header. */
function describeParameter(about: string | z.ZodType): Json {
  const { description, ...schema } = toJsonSchema(
    typeof about === 'string' ? z.string().describe(about) : about,
  );
  return { description, schema };
}

/** Registers a schema and the named schemas within it under `components`, and returns its name. */
function registerSchema(schemasById: Record<string, unknown>, schema: z.ZodType): string {
  const name = schema.meta()?.id;
  if (name === undefined) throw new Error('a schema of a route has no id: add .meta({ id })');
  if (name in schemasById) return name;
  const { $defs = {}, ...own } = toJsonSchema(schema);
  // A recursive schema is among its own definitions.
  for (const [id, { id: _, ...definition }] of Object.entries({ [name]: own, ...$defs }))
    schemasById[id] ??= JSON.parse(
      JSON.stringify(definition).replaceAll('"#/$defs/', `"${schemaPrefix}`),
    ) as unknown;
  return name;
}
