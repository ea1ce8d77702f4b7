/** Where unknown members are refused; see docs/decisions/requests.md. */
import { expect, test } from 'vitest';
import { createControlPlanes, type HostFacts, createHostPlanes } from '../../src/planes/mount.ts';
import { openapiDocument } from '../../src/http/openapi.ts';
import type { Plane } from '../../src/http/route.ts';
import { runRequest } from '../../src/planes/agent/runs-schema.ts';

/** A stand-in for the dependencies of the planes: no route is called. */
const anything: never = new Proxy(() => undefined, {
  get: (_, name): unknown => (name === Symbol.iterator ? undefined : anything),
}) as never;
const facts: HostFacts = {
  resident: anything,
  store: anything,
  served: anything,
  version: '0',
  endpointId: 'e',
  gateway: true,
  recorder: anything,
  observe: anything,
  agent: { host: anything, facts: anything },
};

type Json = Readonly<Record<string, unknown>>;
interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, { readonly requestBody?: Json }>>>>;
  readonly components: { readonly schemas: Json };
}

/** Request bodies of the planes that contain an object which refuses unknown members. */
function closedBodies(planes: readonly Plane[]): { readonly closed: string[]; readonly bodies: number } {
  const { paths, components } = openapiDocument(planes, '0') as unknown as Document;
  const isClosed = (value: unknown, seen: Set<string>): boolean => {
    if (typeof value !== 'object' || value === null) return false;
    const { $ref, additionalProperties } = value as { $ref?: string; additionalProperties?: unknown };
    if (typeof $ref === 'string') {
      const name = $ref.slice($ref.lastIndexOf('/') + 1);
      if (seen.has(name)) return false;
      seen.add(name);
      return isClosed(components.schemas[name], seen);
    }
    return additionalProperties === false || Object.values(value).some((one) => isClosed(one, seen));
  };
  const bodies = Object.entries(paths).flatMap(([path, operations]) =>
    Object.entries(operations).flatMap(([method, { requestBody }]) =>
      requestBody ? [{ name: `${method.toUpperCase()} ${path}`, requestBody }] : [],
    ),
  );
  const closed = bodies.filter(({ requestBody }) => isClosed(requestBody, new Set()));
  return { closed: closed.map(({ name }) => name), bodies: bodies.length };
}

test('unknown members are refused where leaving one out does something else, and ignored everywhere else', () => {
  const main = closedBodies(createHostPlanes(facts));
  expect(main.bodies).toBeGreaterThan(40);
  expect(main.closed.toSorted()).toEqual([
    // Without its `inputs`, a paused run would go on with defaults; without `only`, the whole task would stop.
    'POST /agent/v1/runs/{id}/resume',
    'POST /agent/v1/tasks/{id}/stop',
    'POST /observe/v1/query',
    'PUT /recorder/v1/racks/{id}',
  ]);
  expect(closedBodies(createControlPlanes(facts))).toEqual({ closed: ['POST /host/v1/peers'], bodies: 1 });
});

test('unknown members of run requests are ignored', () => {
  expect(runRequest.parse({ input: 'x', inputs: { a: 1 }, dry_run: true })).toEqual({
    input: 'x',
    inputs: { a: 1 },
  });
});
