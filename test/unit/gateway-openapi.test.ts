import { expect, it } from 'vitest';
import { openapiDocument } from '../../src/gateway/serve/openapi.ts';
import type { GatewayServices } from '../../src/gateway/serve/services.ts';
import { gatewayRoutes } from '../../src/gateway/serve/routes.ts';

// Creating routes does not use their services.
const routes = gatewayRoutes({} as GatewayServices, '/gateway');

it('describes every route of the gateway, where it is mounted', () => {
  const { paths } = openapiDocument(routes, '/gateway');
  const documented = Object.entries(paths).flatMap(([path, verbs]) =>
    Object.keys(verbs).map((verb) => `${verb.toUpperCase()} ${path}`),
  );
  expect(documented.sort()).toEqual(routes.map(({ method, path }) => `${method} /gateway${path}`).sort());
  expect(documented).toContain('POST /gateway/v1/chat/completions');
});

it('and fails for a route without a description', () => {
  expect(() => openapiDocument([{ method: 'GET', path: '/new' }], '')).toThrow('GET /new is not described');
});
