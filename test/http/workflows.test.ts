/** Workflows over HTTP: stored byte for byte, linted with every finding, forked from the built-in ones. */
import { createHash } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import * as fc from 'fast-check';
import { afterEach, beforeAll, expect, it } from 'vitest';
import { AgentError } from '../../src/agent/errors.ts';
import { BuiltinWorkflows } from '../../src/agent/workflows/builtin-workflows.ts';
import { Ensembles } from '../../src/agent/workflows/ensembles.ts';
import { workflowRoutes } from '../../src/planes/agent/workflows-routes.ts';
import { Store } from '../../src/store/index.ts';
import { describeDatabases } from '../support/databases.ts';
import { routeServers } from '../support/serve-routes.ts';
import { catalog, storedAgents, workflow } from '../support/workflows.ts';

const base = '/agent/v1/workflows';
const plainText = { 'content-type': 'text/plain' };
type Body = Record<string, unknown>;

describeDatabases('workflows over HTTP', (url) => {
  const serve = routeServers();
  const stores: Store[] = [];
  let builtins: BuiltinWorkflows;
  beforeAll(async () => {
    builtins = await BuiltinWorkflows.open(fileURLToPath(new URL('../../workflows', import.meta.url)));
  });
  afterEach(async () => {
    for (const store of stores.splice(0)) await store.close();
  });

  async function world({ enabled = ['plain'] } = {}) {
    const database = await url();
    const store = await Store.open({ url: database, endpointId: 'e1' });
    stores.push(store);
    const ensembles = new Ensembles({
      store,
      builtins,
      toolbox: { catalog: () => Promise.resolve(catalog) },
      agents: {
        get: (name) => {
          const agent = storedAgents[name];
          return agent
            ? Promise.resolve(agent)
            : Promise.reject(new AgentError('not_found', 'unknown_agent', 'There is no such agent.'));
        },
      },
      isEnabled: (name) => enabled.includes(name),
    });
    const server = await serve(workflowRoutes(ensembles));
    const send = (method: string, path: string, body?: string, headers: Record<string, string> = plainText) =>
      fetch(server.url + base + path, { method, headers, ...(body === undefined ? {} : { body }) });
    const json = async (method: string, path: string, body?: string, headers?: Record<string, string>) => {
      const response = await send(method, path, body, headers);
      return { status: response.status, body: (await response.json()) as Body };
    };
    const acts = () =>
      store.read((db) =>
        db.selectFrom('acts').select(['verb', 'target', 'by', 'details']).orderBy('seq').execute(),
      );
    return { store, ensembles, send, json, acts, server, database };
  }
  const codeOf = (body: Body) => (body['error'] as { code: string }).code;
  const codesOf = (body: Body) => (body['errors'] as { code: string }[]).map(({ code }) => code);
  const digest = (text: string) => `sha256:${createHash('sha256').update(text).digest('hex')}`;
  const time = expect.stringMatching(/^\d{4}-.*\.\d{3}Z$/) as string;

  it('starts with none, and lists them by name', async () => {
    const { json } = await world();
    expect(await json('GET', '')).toEqual({ status: 200, body: [] });
    await json('POST', '', workflow({ name: 'second' }));
    await json('POST', '', workflow({ name: 'plain' }));
    const { body } = await json('GET', '');
    expect((body as unknown as Body[]).map(({ name, enabled }) => [name, enabled])).toEqual([
      ['plain', true],
      ['second', false],
    ]);
  });

  it('stores a workflow, gets it, replaces it, deletes it, and journals each', async () => {
    const { json, send, acts } = await world();
    const source = workflow({ header: 'version = "1.2"\ndescription = "Plain."' });
    const stored = {
      name: 'plain',
      source,
      digest: digest(source),
      enabled: true,
      version: '1.2',
      description: 'Plain.',
      created_at: time,
      updated_at: time,
    };
    expect(await json('POST', '', source)).toEqual({ status: 201, body: stored });
    expect(await json('GET', '/plain')).toEqual({ status: 200, body: stored });
    const { body: first } = await json('GET', '/plain');

    const again = await json('POST', '', workflow());
    expect([again.status, codeOf(again.body)]).toEqual([409, 'workflow_exists']);
    expect((await json('GET', '/plain')).body).toEqual(first);

    const changed = workflow({ header: 'version = "2"' });
    const put = await json('PUT', '/plain', changed);
    expect(put).toMatchObject({
      status: 200,
      body: { source: changed, version: '2', created_at: first['created_at'] },
    });
    expect(put.body).not.toHaveProperty('description');
    expect((await json('GET', '/plain')).body).toEqual(put.body);

    const gone = await send('DELETE', '/plain');
    expect([gone.status, await gone.text()]).toEqual([204, '']);
    expect((await send('DELETE', '/plain')).status).toBe(404);
    expect((await send('GET', '/plain')).status).toBe(404);
    expect(await acts()).toEqual([
      {
        verb: 'workflow.create',
        target: 'plain',
        by: 'local',
        details: JSON.stringify({ digest: digest(source) }),
      },
      {
        verb: 'workflow.put',
        target: 'plain',
        by: 'local',
        details: JSON.stringify({ digest: digest(changed) }),
      },
      {
        verb: 'workflow.delete',
        target: 'plain',
        by: 'local',
        details: JSON.stringify({ digest: digest(changed) }),
      },
    ]);
  });

  it('creates a missing workflow with PUT', async () => {
    const { json } = await world();
    expect((await json('PUT', '/plain', workflow())).status).toBe(200);
    expect((await json('GET', '/plain')).status).toBe(200);
  });

  it('answers a source with errors with the lint report, and stores nothing', async () => {
    const { json, acts } = await world();
    const source = workflow({ name: 'Bad', step: 'prompt = "{{inputs.x}}"\nwhen = "nope"' });
    for (const [method, path] of [
      ['POST', ''],
      ['PUT', '/plain'],
    ] as const) {
      const { status, body } = await json(method, path, source);
      expect(status).toBe(400);
      expect(Object.keys(body).toSorted()).toEqual(['errors', 'name', 'ok', 'warnings']);
      expect(body).toMatchObject({ ok: false, name: 'Bad' });
      expect(codesOf(body).filter((code) => code !== 'name_differs')).toEqual([
        'bad_name',
        'bad_reference',
        'bad_condition',
      ]);
    }
    for (const text of ['', 'not toml', workflow({ name: 'runs' }), `#${'x'.repeat(300_000)}`])
      expect(await json('POST', '', text)).toMatchObject({ status: 400, body: { ok: false } });
    expect(await json('GET', '')).toEqual({ status: 200, body: [] });
    expect(await acts()).toEqual([]);
  });

  it('refuses to put a workflow under another name', async () => {
    const { json } = await world();
    const { status, body } = await json('PUT', '/other', workflow());
    expect(status).toBe(400);
    expect(body['errors']).toEqual([
      {
        code: 'name_differs',
        path: 'ensemble.name',
        message: "the workflow is called 'plain' here and 'other' in the path: make them the same",
        line: 2,
        column: 8,
      },
    ]);
    expect((await json('GET', '')).body).toEqual([]);
  });

  it('keeps every byte of a source', async () => {
    const { send } = await world();
    const windows = `\uFEFF${workflow().replaceAll('\n', '\r\n')}# trailing  \t\r\n\r\n`;
    const comment = fc
      .string({ unit: 'grapheme', maxLength: 40 })
      .map((text) => text.replaceAll(/[\p{Cc}\p{Cs}]/gu, ''));
    const [first = '', second = ''] = fc.sample(comment, 2);
    for (const source of [workflow(), windows, `# ${first} é 🐝 \u2028\n${workflow()}   # ${second}`]) {
      const put = await send('PUT', '/plain', source, { accept: 'text/plain' });
      expect(put.headers.get('content-type')).toBe('text/plain; charset=utf-8');
      const got = await send('GET', '/plain', undefined, { accept: 'text/plain' });
      for (const response of [put, got])
        expect(Buffer.from(await response.arrayBuffer()).equals(Buffer.from(source))).toBe(true);
      const record = (await (await send('GET', '/plain')).json()) as Body;
      expect([record['source'], record['digest']]).toEqual([source, digest(source)]);
    }
  });

  it.each([
    ['text/plain', true],
    ['application/toml', true],
    ['text/plain, application/json;q=0.5', true],
    ['application/json, text/plain', false],
    ['application/json, text/plain;q=0.9', false],
    ['*/*', false],
    ['text/html', false],
  ])('answers with Accept: %s', async (accept, isText) => {
    const { send } = await world();
    const created = await send('POST', '', workflow(), { ...plainText, accept });
    expect(created.status).toBe(201);
    expect(created.headers.get('content-type')?.startsWith('text/plain')).toBe(isText);
  });

  it('lints the stored source, or a sent one', async () => {
    const { json } = await world();
    expect((await json('POST', '/plain/lint')).status).toBe(404);
    const sent = await json(
      'POST',
      '/plain/lint',
      workflow({ rest: 'grants = {tools = ["fs_write"], write = ["/srv"]}' }),
    );
    expect(sent).toEqual({
      status: 200,
      body: {
        ok: true,
        name: 'plain',
        errors: [],
        warnings: [],
        consent: {
          tools: ['fs_write'],
          read: [],
          write: ['/srv'],
          network: [],
          models: ['resident'],
          workflows: [],
          schedule: null,
          destructive: [
            {
              tool: 'fs_write',
              approval: 'person',
            },
          ],
        },
      },
    });
    const bad = await json('POST', '/plain/lint', 'name = ');
    expect(bad).toMatchObject({
      status: 200,
      body: { ok: false, errors: [{ code: 'toml_syntax', line: 1, column: 8 }] },
    });
    expect(bad.body).not.toHaveProperty('consent');
    expect((await json('GET', '')).body).toEqual([]);
    await json('POST', '', workflow());
    expect(await json('POST', '/plain/lint')).toMatchObject({
      status: 200,
      body: { ok: true, consent: { tools: [] } },
    });
    const stranger = workflow().replace('agent = "worker"', 'agent = "helpr"');
    const strange = await json('POST', '/plain/lint', stranger);
    expect(codesOf(strange.body)).toEqual(['unknown_agent']);
    expect(strange.body).toMatchObject({ ok: false, consent: { tools: [], models: [], schedule: null } });
    const helper = workflow().replace('agent = "worker"', 'agent = "helper"');
    expect((await json('POST', '/plain/lint', helper)).body).toMatchObject({
      ok: true,
      consent: { write: ['/srv'] },
    });
  });

  it('lists the built-in workflows and their rights', async () => {
    const { json } = await world({ enabled: ['nightly-health'] });
    const { status, body } = await json('GET', '/builtins');
    expect(status).toBe(200);
    expect(Object.keys(body)).toEqual(['builtins']);
    const listed = body['builtins'] as Body[];
    expect(listed.length).toBeGreaterThanOrEqual(5);
    expect(listed.find(({ name }) => name === 'nightly-health')).toMatchObject({
      origin: 'builtin:nightly-health@1.0.0',
      enabled: true,
      schedule: { cron: '0 3 * * *', tz: 'UTC' },
      consent: { tools: ['observe_*'], destructive: [] },
    });
    expect((await json('GET', '/nightly-health')).status).toBe(404);
  });

  it('forks a built-in workflow', async () => {
    const { json, send, acts } = await world();
    const fork = await json('POST', '/code-review/fork', undefined, {});
    expect(fork).toMatchObject({
      status: 201,
      body: { name: 'code-review', origin: 'builtin:code-review@1.0.0' },
    });
    const source = builtins.get('code-review')?.source ?? '';
    expect(fork.body['source']).toBe(
      source.replace(
        'name = "code-review"\n',
        'name = "code-review"\norigin = "builtin:code-review@1.0.0"\n',
      ),
    );
    const again = await json('POST', '/code-review/fork', '{}', { 'content-type': 'application/json' });
    expect([again.status, codeOf(again.body)]).toEqual([409, 'workflow_exists']);
    const renamed = await json('POST', '/code-review/fork', '{"as": "mine", "more": 1}', {
      'content-type': 'application/json',
    });
    expect(renamed).toMatchObject({
      status: 201,
      body: { name: 'mine', origin: 'builtin:code-review@1.0.0' },
    });
    expect(await json('GET', '/mine')).toEqual({ status: 200, body: renamed.body });

    // A normal workflow from then on.
    expect((await json('POST', '/mine/lint')).body).toMatchObject({ ok: true, warnings: [] });
    expect((await json('PUT', '/mine', workflow({ name: 'mine' }))).body).not.toHaveProperty('origin');
    expect((await send('DELETE', '/mine')).status).toBe(204);
    expect((await acts()).map(({ verb, target }) => `${verb} ${target}`)).toEqual([
      'workflow.fork code-review',
      'workflow.fork mine',
      'workflow.put mine',
      'workflow.delete mine',
    ]);
  });

  it.each([
    ['/nope/fork', '{}', 404, 'unknown_builtin'],
    ['/nope/fork', '{"as": "x"}', 404, 'unknown_builtin'],
    ['/code-review/fork', '{"as": "Bad Name"}', 400, 'invalid_value'],
    ['/code-review/fork', '{"as": 1}', 400, 'invalid_value'],
    ['/code-review/fork', '{"as": "builtins"}', 400, 'invalid_value'],
    ['/code-review/fork', '[]', 400, 'invalid_value'],
    ['/code-review/fork', '{', 400, 'invalid_json'],
  ])('refuses POST %s %s', async (path, body, status, code) => {
    const { json } = await world();
    const answer = await json('POST', path, body, { 'content-type': 'application/json' });
    expect([answer.status, codeOf(answer.body)]).toEqual([status, code]);
    expect((await json('GET', '')).body).toEqual([]);
  });

  it('does not fork stored workflows', async () => {
    const { json } = await world();
    await json('POST', '', workflow());
    expect((await json('POST', '/plain/fork', undefined, {})).status).toBe(404);
  });

  it('refuses bytes that are not text', async () => {
    const { send } = await world();
    expect((await send('POST', '', workflow(), { 'content-type': 'application/json' })).status).toBe(415);
    expect((await send('PUT', '/plain', 'x'.repeat(2_000_000))).status).toBe(413);
    expect((await send('POST', '', workflow(), { ...plainText, origin: 'https://example.com' })).status).toBe(
      403,
    );
    expect(
      (await send('PUT', '/plain', workflow(), { ...plainText, origin: 'https://example.com' })).status,
    ).toBe(403);
  });

  it('lists, gets and deletes sources that no longer lint', async () => {
    const { store, json, send } = await world();
    const source = '[ensemble]\nname = "plain"\nfrom_another_time = true\n';
    const row = {
      name: 'plain',
      source,
      digest: digest(source),
      origin: null,
      version: null,
      description: null,
    };
    await store.transaction((tx) =>
      tx
        .insertInto('workflows')
        .values({ ...row, created_at: store.time(), updated_at: store.time() })
        .execute(),
    );
    expect((await json('GET', '')).body).toMatchObject([{ name: 'plain', source }]);
    expect((await json('GET', '/plain')).body).toMatchObject({ source });
    expect((await json('POST', '/plain/lint')).body).toMatchObject({ ok: false });
    expect((await send('DELETE', '/plain')).status).toBe(204);
  });

  it('creates only one of many concurrent workflows with the same name', async () => {
    const { json, acts } = await world();
    const answers = await Promise.all(Array.from({ length: 8 }, () => json('POST', '', workflow())));
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(1);
    expect(answers.filter(({ status }) => status === 409)).toHaveLength(7);
    expect(await acts()).toHaveLength(1);
  });

  it('keeps workflows over a restart', async () => {
    const { json, database } = await world();
    const { body } = await json('POST', '', workflow());
    await Promise.all(stores.splice(0).map((store) => store.close()));
    const store = await Store.open({ url: database, endpointId: 'e1' });
    stores.push(store);
    const rows = await store.read((db) => db.selectFrom('workflows').selectAll().execute());
    expect(rows).toMatchObject([{ name: 'plain', source: body['source'], digest: body['digest'] }]);
  });

  it('finds the workflow to run by name: a stored one, or else a built-in, and only when enabled', async () => {
    const { ensembles } = await world({ enabled: ['plain', 'code-review'] });
    expect(await ensembles.findRunnable('plain')).toBeUndefined();
    expect(await ensembles.findRunnable('nightly-health')).toBeUndefined();
    expect(await ensembles.findRunnable('code-review')).toMatchObject({
      digest: builtins.get('code-review')?.digest,
    });
    await ensembles.put('code-review', workflow({ name: 'code-review' }), 'local');
    await ensembles.create(workflow({ name: 'closed' }), 'local');
    expect(await ensembles.findRunnable('code-review')).toMatchObject({
      source: workflow({ name: 'code-review' }),
    });
    expect(await ensembles.findRunnable('closed')).toBeUndefined();
  });
});
