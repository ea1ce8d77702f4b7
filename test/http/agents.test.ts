/** Stored agents over HTTP: every route, and invalid agents. */
import fc from 'fast-check';
import { afterEach, expect, it } from 'vitest';
import { StoredAgents } from '../../src/agent/agents/stored-agents.ts';
import type { ToolCatalogEntry } from '../../src/agent/shapes/tool.ts';
import { agentsRoutes } from '../../src/planes/agent/agents-routes.ts';
import { openapiDocument } from '../../src/http/openapi.ts';
import { createAgentPlane } from '../../src/planes/agent/plane.ts';
import { Store } from '../../src/store/index.ts';
import { describeDatabases } from '../support/databases.ts';
import { routeServers } from '../support/serve-routes.ts';

type Json = Record<string, unknown>;
const catalog = () =>
  Promise.resolve(['fs_read', 'fs_write', 'run_command'].map((name) => ({ name }) as ToolCatalogEntry));

describeDatabases('agents over HTTP', (url) => {
  const serve = routeServers();
  const open: Store[] = [];
  afterEach(async () => {
    await Promise.all(open.splice(0).map((store) => store.close()));
  });

  async function world({ at, tools = false }: { at?: string; tools?: boolean } = {}) {
    const store = await Store.open({ url: at ?? (await url()), endpointId: 'here' });
    open.push(store);
    const agents = new StoredAgents({ store, ...(tools ? { tools: { catalog } } : {}) });
    const { send } = await serve(agentsRoutes(agents));
    const json = async (method: string, path: string, body?: unknown) => {
      const response = await send(method, `/agent/v1/agents${path}`, body);
      const text = await response.text();
      return { status: response.status, body: (text === '' ? undefined : JSON.parse(text)) as Json };
    };
    const faults = async (body: unknown) => {
      const { status, body: answer } = await json('POST', '', body);
      expect(status).toBe(400);
      const { violations } = answer['error'] as { violations: { path: string; message: string }[] };
      return Object.fromEntries(violations.map(({ path, message }) => [path, message]));
    };
    const acts = () =>
      store.read((db) =>
        db.selectFrom('acts').select(['verb', 'target', 'by', 'outcome']).orderBy('seq').execute(),
      );
    return { agents, send, json, faults, acts };
  }
  const writer = { name: 'writer', instructions: 'Write.' };
  const stored = {
    ...writer,
    model: 'resident',
    grants: { tools: [], read: [], write: [], network: [], auto_approve: [] },
  };

  it('creates, gets, replaces and deletes, and journals each', async () => {
    const { json, acts } = await world();
    expect(await json('POST', '', writer)).toEqual({ status: 201, body: stored });
    expect(await json('GET', '/writer')).toEqual({ status: 200, body: stored });
    const again = await json('POST', '', { ...writer, instructions: 'Other.' });
    expect([again.status, (again.body['error'] as Json)['code']]).toEqual([409, 'name_exists']);
    const next = { ...stored, instructions: 'Write more.' };
    expect(await json('PUT', '/writer', { ...writer, instructions: 'Write more.' })).toEqual({
      status: 200,
      body: next,
    });
    expect((await json('GET', '/writer')).body).toEqual(next);
    expect(await json('DELETE', '/writer')).toEqual({ status: 204, body: undefined });
    expect((await json('GET', '/writer')).status).toBe(404);
    expect((await json('DELETE', '/writer')).status).toBe(404);
    expect(await json('PUT', '/writer', writer)).toEqual({ status: 200, body: stored });
    const by = { target: 'writer', by: 'local', outcome: 'applied' };
    expect(await acts()).toEqual(
      ['agent.create', 'agent.put', 'agent.delete', 'agent.put'].map((verb) => ({ verb, ...by })),
    );
  });

  it('has a default agent that can be replaced, and is restored by deletion', async () => {
    const { json } = await world();
    const builtIn = await json('GET', '/default');
    expect(builtIn.body).toMatchObject({
      name: 'default',
      grants: { tools: [], write: [] },
    });
    expect((await json('GET', '')).body).toEqual([builtIn.body]);
    expect((await json('DELETE', '/default')).status).toBe(404);
    const mine = { ...stored, name: 'default' };
    expect((await json('PUT', '/default', mine)).body).toEqual(mine);
    await json('POST', '', writer);
    await json('POST', '', { ...writer, name: 'a' });
    const names = (await json('GET', '')).body as unknown as { name: string }[];
    expect(names.map(({ name }) => name)).toEqual(['a', 'default', 'writer']);
    expect((await json('DELETE', '/default')).status).toBe(204);
    expect(await json('GET', '/default')).toEqual(builtIn);
    expect((await json('POST', '', mine)).status).toBe(201);
    expect((await json('POST', '', mine)).status).toBe(409);
  });

  it('keeps unknown members at any depth, over a restart', async () => {
    const at = await url();
    const sent = `{"vendor":{"b":[1,{"z":null}],"a":"ä😀"},"name":"writer","instructions":"Write.\\u0000",
      "grants":{"tools":["fs_*"],"future":true},"limits":{"max_turns":3,"max_money":1},"sampling":{"seed":1,"x":2}}`;
    const first = await world({ at });
    expect((await first.json('POST', '', sent)).status).toBe(201);
    const { body } = await (await world({ at })).json('GET', '/writer');
    expect(body).toMatchObject({
      ...(JSON.parse(sent) as Json),
      grants: { future: true, tools: ['fs_*'], read: [] },
    });
  });

  it('does not treat prototype members as members', async () => {
    const { json } = await world();
    const sent =
      '{"name":"writer","instructions":"x","__proto__":{"sampling":{"temperature":99},"grants":{"tools":["*"]}}}';
    const { status, body } = await json('POST', '', sent);
    expect(status).toBe(201);
    expect(body).toMatchObject({ grants: stored.grants });
    expect(Object.hasOwn(body, 'sampling')).toBe(false);
  });

  it('refuses a body whose name is not the one of the path, or is missing', async () => {
    const { json } = await world();
    const violations = async (path: string, body: unknown) => {
      const answer = await json('PUT', path, body);
      expect(answer.status).toBe(400);
      return (answer.body['error'] as { violations: { path: string }[] }).violations;
    };
    expect(await violations('/writer', { ...writer, name: 'other' })).toEqual([
      { path: 'name', message: "expected 'writer', as the path names it, got 'other'" },
    ]);
    expect((await violations('/writer', { instructions: 'x' })).map(({ path }) => path)).toEqual(['name']);
    expect((await violations('/Writer!', { ...writer, name: 'Writer!' })).map(({ path }) => path)).toEqual([
      'name',
    ]);
    expect((await json('GET', '/writer')).status).toBe(404);
  });

  it('reports every fault at once', async () => {
    const { faults } = await world();
    const found = await faults({
      name: 'Bad Name',
      model: '',
      grants: {
        tools: ['fs_read', 'fs read'],
        read: ['relative', '/ok'],
        write: ['/a/../b'],
        network: ['https://example.com'],
        auto_approve: 'all',
      },
      sampling: { temperature: 3, top_p: -1 },
      limits: { max_turns: 0 },
      tool_choice: 'never',
    });
    expect(Object.keys(found).sort()).toEqual([
      'grants.auto_approve',
      'grants.network.0',
      'grants.read.0',
      'grants.tools.1',
      'grants.write.0',
      'instructions',
      'limits.max_turns',
      'model',
      'name',
      'sampling.temperature',
      'sampling.top_p',
      'tool_choice',
    ]);
    expect(found['grants.network.0']).toContain("use 'example.com'");
  });

  it('refuses unknown tool names, and accepts any glob', async () => {
    const { faults, json } = await world({ tools: true });
    expect(
      await faults({ ...writer, grants: { tools: ['fs_raed', 'fs_read'], auto_approve: ['xyz'] } }),
    ).toEqual({
      'grants.tools.0': "there is no tool 'fs_raed'; did you mean 'fs_read'?",
      'grants.auto_approve.0': "there is no tool 'xyz'; GET /agent/v1/tools lists them",
    });
    const wrong = await json('POST', '', { ...writer, grants: { tools: ['fs_raed'] } });
    expect(wrong.body).toMatchObject({
      error: { message: expect.stringMatching(/did you mean 'fs_read'\?$/) },
    });
    expect((await json('POST', '', { ...writer, grants: { tools: ['mcp_*', 'run_command'] } })).status).toBe(
      201,
    );
  });

  it.each([
    ['an array', []],
    ['null', 'null'],
    ['a text', '"x"'],
    ['nothing', '{}'],
    ['no JSON', '{'],
    ['a name with a slash', { ...writer, name: 'a/b' }],
    ['a name that is too long', { ...writer, name: 'a'.repeat(65) }],
    ['endless instructions', { ...writer, instructions: 'x'.repeat(100_001) }],
    ['endless unknown members', { ...writer, x: 'x'.repeat(1_000_001) }],
    ['endless grants', { ...writer, grants: { tools: Array.from({ length: 201 }, () => 'a') } }],
    ['grants that are no object', { ...writer, grants: [] }],
    ['grants that are null', { ...writer, grants: null }],
  ])('refuses %s', async (_, body) => {
    const { json, acts } = await world();
    expect((await json('POST', '', body)).status).toBe(400);
    expect((await json('PUT', '/writer', body)).status).toBe(400);
    expect(await acts()).toEqual([]);
  });

  it('creates only one of many concurrent agents with the same name', async () => {
    const { json, acts } = await world();
    const all = await Promise.all(Array.from({ length: 8 }, () => json('POST', '', writer)));
    expect(all.map(({ status }) => status).sort((a, b) => a - b)).toEqual([
      201,
      ...Array<number>(7).fill(409),
    ]);
    expect(await acts()).toHaveLength(1);
  });

  it('answers every body with 201, or with faults that have a path', async () => {
    const { agents } = await world({ tools: true });
    const member = fc.oneof(fc.jsonValue(), fc.constant(undefined));
    const body = fc.record(
      {
        name: fc.oneof(fc.constant('x'), member),
        instructions: fc.oneof(fc.constant('x'), member),
        model: member,
        grants: fc.oneof(
          member,
          fc.record({
            tools: member,
            read: member,
            write: fc.array(fc.string()),
            network: fc.array(fc.string()),
          }),
        ),
        sampling: member,
        limits: member,
        tool_choice: member,
      },
      { requiredKeys: [] },
    );
    await fc.assert(
      fc.asyncProperty(body, async (sent) => {
        const plain = JSON.parse(JSON.stringify(sent)) as Json;
        const kept = await agents.put('x', plain, 'local').catch((error: unknown) => error);
        if (kept instanceof Error) {
          expect(kept).toMatchObject({
            kind: 'invalid',
            faults: expect.arrayContaining([
              { path: expect.any(String) as string, message: expect.any(String) as string },
            ]) as unknown,
          });
        } else expect(kept).toMatchObject({ name: 'x' });
      }),
      { numRuns: 200 },
    );
  });

  it('is described in the OpenAPI document', async () => {
    const { agents } = await world();
    const document = JSON.stringify(openapiDocument([createAgentPlane(agentsRoutes(agents))], '1'));
    const references = new Set(document.match(/#\/components\/schemas\/\w+/g));
    const { components } = JSON.parse(document) as { components: { schemas: Json } };
    expect([...references].filter((one) => !(one.slice(21) in components.schemas))).toEqual([]);
    expect(references).toContain('#/components/schemas/AgentSpec');
    expect(document).not.toContain('$defs');
  });
});
