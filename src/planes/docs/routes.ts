import { hostError } from '../error-schema.ts';
import { hostEnvelope } from '../../http/error.ts';
import { openapiDocument } from '../../http/openapi.ts';
import { defineRoute, type Plane } from '../../http/route.ts';
import { renderDocsPage } from '../../api-docs/page.ts';
import { requiredScopes } from '../scopes.ts';
import { htmlPage, openapi } from '../../api-docs/schema.ts';

/** The plane of the OpenAPI document of the given planes and itself. */
export function createDocsPlane(describedPlanes: readonly Plane[], version: string): Plane {
  const document = defineRoute({
    method: 'GET',
    path: '/openapi.json',
    operationId: 'getOpenApi',
    summary: 'Get the OpenAPI document',
    responses: { 200: { description: 'OpenAPI 3.1.', content: { 'application/json': openapi } } },
    handle: () => Response.json(writtenDocument()),
  });
  const page = defineRoute({
    method: 'GET',
    path: '/docs',
    operationId: 'getDocs',
    summary: 'Read the API documentation',
    responses: { 200: { description: 'A page without scripts.', content: { 'text/html': htmlPage } } },
    handle() {
      const { html, headers } = renderDocsPage(writtenDocument(), '/openapi.json');
      return new Response(html, { headers });
    },
  });
  const plane: Plane = {
    name: 'docs',
    summary: 'API documentation.',
    prefixes: ['/docs', '/openapi.json'],
    envelope: hostEnvelope,
    errorSchema: hostError,
    routes: [document, page],
  };
  let cache: ReturnType<typeof openapiDocument> | undefined;
  const writtenDocument = () =>
    (cache ??= openapiDocument(
      [...describedPlanes, plane],
      version,
      ({ name }, route) => requiredScopes(name, route) !== 'none',
    ));
  return plane;
}
