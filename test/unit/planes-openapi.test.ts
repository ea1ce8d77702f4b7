import { expect, test } from 'vitest';
import { createApp, honoPath } from '../../src/planes/app.ts';
import { hostPlanes } from '../../src/planes/mount.ts';
import { openapiDocument } from '../../src/planes/openapi.ts';
import { Resident } from '../../src/planes/resident.ts';
import { Served } from '../../src/planes/served.ts';

const planes = hostPlanes({
  resident: new Resident('none'),
  served: new Served(),
  version: '0',
  endpointId: 'e',
});
const document = openapiDocument(planes, '0') as {
  openapi: string;
  paths: Record<string, Record<string, { operationId: string; responses: Record<string, unknown> }>>;
  components: { schemas: Record<string, unknown> };
};

test('the document describes every mounted route and no other', () => {
  const app = createApp({ planes, stopping: new AbortController().signal, onFault: () => undefined });
  const mounted = app.routes
    .filter(({ method }) => method !== 'ALL')
    .map(({ method, path }) => `${method} ${path}`);
  const described = Object.entries(document.paths).flatMap(([path, operations]) =>
    Object.keys(operations).map((method) => `${method.toUpperCase()} ${path}`),
  );
  const routes = planes.flatMap((plane) => plane.routes);
  expect(mounted.sort()).toEqual(routes.map((route) => `${route.method} ${honoPath(route)}`).sort());
  expect(mounted.length).toBeGreaterThan(9);
  expect(described.sort()).toEqual(routes.map(({ method, path }) => `${method} ${path}`).sort());
});

test('every reference leads somewhere, every operation has its own id and an answer', () => {
  const references = [...JSON.stringify(document).matchAll(/"\$ref":"([^"]+)"/g)].map(
    ([, target]) => target ?? '',
  );
  expect(references.length).toBeGreaterThan(10);
  for (const target of references) {
    expect(target.startsWith('#/components/schemas/')).toBe(true);
    expect(document.components.schemas).toHaveProperty(target.slice('#/components/schemas/'.length));
  }
  const operations = Object.values(document.paths).flatMap((operation) => Object.values(operation));
  expect(new Set(operations.map(({ operationId }) => operationId)).size).toBe(operations.length);
  for (const { responses } of operations) {
    expect(Object.keys(responses).some((status) => status === '200' || status === '201')).toBe(true);
  }
});

test('the schemas are whole: members, ranges and required members are there', () => {
  const request = document.components.schemas['ChatCompletionRequest'] as {
    type: string;
    required: string[];
    properties: Record<string, { description?: string }>;
  };
  expect(request.type).toBe('object');
  expect(request.required).toEqual(['messages']);
  expect(JSON.stringify(request.properties['temperature'])).toMatch(/"minimum":0.*"maximum":2/);
  expect(JSON.stringify(request.properties['seed'])).toContain('integer');
  expect(document.components.schemas['SubstrateInfo']).toMatchObject({
    type: 'object',
    required: expect.arrayContaining(['contract_version', 'endpoint_id', 'completions_served']),
  });
});
