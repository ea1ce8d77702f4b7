import { expect, test } from 'vitest';
import { loopbackAccess } from '../../src/planes/access.ts';
import { createApp } from '../../src/http/app.ts';
import { honoPath } from '../../src/http/router.ts';
import { createHostPlanes } from '../../src/planes/mount.ts';
import { openapiDocument } from '../../src/http/openapi.ts';
import { Resident } from '../../src/planes/resident.ts';
import { ServedCounters } from '../../src/planes/served-counters.ts';
import { storeAt } from '../support/model-store.ts';

const planes = createHostPlanes({
  resident: new Resident('none'),
  store: storeAt('/nowhere'),
  served: new ServedCounters(),
  version: '0',
  endpointId: 'e',
});
const document = openapiDocument(planes, '0') as {
  openapi: string;
  paths: Record<string, Record<string, { operationId: string; responses: Record<string, unknown> }>>;
  components: { schemas: Record<string, unknown> };
};

test('the document describes every mounted route and no other', () => {
  const app = createApp({
    planes,
    access: loopbackAccess,
    stopSignal: new AbortController().signal,
    onFault: () => undefined,
  });
  // Routes that only answer that they do not exist are not in the document.
  const absent = planes
    .flatMap((plane) => plane.absentRoutes ?? [])
    .map(({ method, path }) => `${method} ${path}`);
  const mounted = app.routes
    .filter(({ method }) => method !== 'ALL')
    .map(({ method, path }) => `${method} ${path}`)
    .filter((route) => !absent.includes(route));
  const described = Object.entries(document.paths).flatMap(([path, operations]) =>
    Object.keys(operations).map((method) => `${method.toUpperCase()} ${path}`),
  );
  const routes = planes.flatMap((plane) => plane.routes);
  // Hono looks up the `GET` handlers for a `HEAD` request.
  const mountedAs = ({ method }: (typeof routes)[number]) => (method === 'HEAD' ? 'GET' : method);
  expect(mounted.sort()).toEqual(routes.map((route) => `${mountedAs(route)} ${honoPath(route)}`).sort());
  expect(mounted.length).toBeGreaterThan(9);
  expect(described.sort()).toEqual(routes.map(({ method, path }) => `${method} ${path}`).sort());
});

test('every reference resolves, every operation has a unique id and a response', () => {
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
  // Routes for stored responses always refuse.
  const refusing = new Set(['getResponse', 'deleteResponse']);
  for (const { operationId, responses } of operations) {
    const expected = refusing.has(operationId) ? ['404'] : ['200', '201', '501'];
    expect(expected.some((status) => status in responses)).toBe(true);
  }
});

test('the schemas are complete: members, ranges and required members', () => {
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

test.each([
  'ChatCompletionRequest',
  'CompletionRequest',
  'EmbeddingRequest',
  'ResponseRequest',
  'MessageRequest',
  'CountTokensRequest',
])('every member of %s has a description', (name) => {
  const { properties } = document.components.schemas[name] as {
    properties: Record<string, { description?: string }>;
  };
  expect(Object.keys(properties).filter((member) => !properties[member]?.description)).toEqual([]);
});
