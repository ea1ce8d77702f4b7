import fc from 'fast-check';
import { mkdirSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freshDataDir, type HostProcess, startSource } from '../support/host.ts';
import { type ScriptedAnswer, scriptedOpenAi } from '../support/scripted-openai.ts';
import { rounds } from '../support/tier.ts';

interface RequestOptions {
  readonly method: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

/** The real process, with a scripted model. */
describe('the agent plane under abuse', () => {
  const folder = freshDataDir();
  const granted = join(folder, 'granted');
  const script: ScriptedAnswer[] = [];
  let host: HostProcess;
  let gateway: Awaited<ReturnType<typeof scriptedOpenAi>>;
  let base: URL;
  let routes: { readonly method: string; readonly path: string }[];

  beforeAll(async () => {
    mkdirSync(granted);
    gateway = await scriptedOpenAi(() => script.shift() ?? { text: 'done' });
    const config = join(folder, 'lathe.toml');
    writeFileSync(config, `[gateway]\nurl = "${gateway.url}"\n`);
    const args = ['--config', config, '--data-dir', join(folder, 'data'), '--enable-all-workflows'];
    host = startSource([...args, '--port', '0', '--control-port', '0']);
    base = new URL(await host.url());
    const { paths } = JSON.parse((await send({ method: 'GET', path: '/openapi.json' })).text) as {
      paths: Record<string, object>;
    };
    routes = Object.entries(paths)
      .filter(([path]) => path.startsWith('/agent/'))
      .flatMap(([path, verbs]) => Object.keys(verbs).map((verb) => ({ method: verb.toUpperCase(), path })));
    const grants = { tools: ['fs_write'], write: [granted] };
    const made = await json('/agent/v1/agents', { name: 'pest', instructions: '', model: 'm', grants });
    expect(made.status).toBe(201);
  });
  afterAll(async () => {
    await host.end();
    await gateway.close();
  });

  /** Not `fetch`, which keeps `Origin` and odd paths to itself. */
  const send = ({ method, path, headers = {}, body }: RequestOptions) =>
    new Promise<{ status: number; text: string }>((resolve, reject) => {
      const { hostname, port } = base;
      // A connection each: the host closes one on which it was silent for long, and one whose body it refused unread.
      const outgoing = request({ hostname, port, method, path, headers, agent: false }, (answer) => {
        let text = '';
        answer.setEncoding('utf8').on('data', (part: string) => (text += part));
        answer.on('error', reject);
        answer.on('end', () => resolve({ status: answer.statusCode ?? 0, text }));
      });
      outgoing.on('error', reject);
      outgoing.end(body);
    });
  const json = (path: string, body: object) =>
    send({
      method: 'POST',
      path,
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
  const task = async (body: object) => {
    const { status, text } = await json('/agent/v1/tasks', { prompt: 'p', agent: 'pest', ...body });
    expect(status, text).toBe(200);
    return text
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>);
  };
  const alive = async () => expect((await send({ method: 'GET', path: '/health' })).status).toBe(200);
  const write = (n: number) => ({
    name: 'fs_write',
    arguments: { intent: 'why not', path: join(granted, `${n}`), content: `${n}\n` },
  });

  it('refuses every POST from a page of another origin', async () => {
    script.push({ calls: [write(0)] });
    const staged = (await task({})).find(({ type }) => type === 'staged');
    const id = String(staged?.['pending_id']);
    const pages = [
      { origin: 'http://evil.example' },
      { origin: 'null' },
      { origin: `http://127.0.0.1:${Number(base.port) + 1}` },
      { 'sec-fetch-site': 'cross-site' },
    ];
    // What a page may send without being asked first: no body, or one of a form's types.
    const bodies: { type?: string; body?: string }[] = [{}, { type: 'text/plain', body: '{}' }];
    let tried = 0;
    for (const { path } of routes.filter(({ method }) => method === 'POST')) {
      const real = path.replace('{id}', id).replace('{name}', 'code-review');
      for (const page of pages)
        for (const { type, body } of bodies) {
          const headers = { ...page, ...(type === undefined ? {} : { 'content-type': type }) } as Record<
            string,
            string
          >;
          const requestOptions = {
            method: 'POST',
            path: real,
            headers,
            ...(body === undefined ? {} : { body }),
          };
          const { status, text } = await send(requestOptions);
          expect(status, `${real} ${JSON.stringify(headers)}: ${text}`).toBeGreaterThanOrEqual(400);
          tried += 1;
        }
    }
    expect(tried).toBeGreaterThan(100);
    // Other verbs and JSON need a preflight request, which is refused for every origin.
    const about = { origin: 'http://evil.example', 'access-control-request-method': 'DELETE' };
    expect(await send({ method: 'OPTIONS', path: '/agent/v1/agents/pest', headers: about })).toMatchObject({
      status: 405,
    });
    const { text } = await send({ method: 'GET', path: `/agent/v1/pending/${id}` });
    expect(JSON.parse(text)).toMatchObject({ state: 'staged' });
  });

  it('answers every request without an internal error', async () => {
    const ids = [
      't1',
      'p1',
      'r1',
      'x1',
      '%00',
      '%2e%2e',
      '..%2f',
      '%ff',
      '%F0%9F%98%80',
      '__proto__',
      'default',
    ];
    const odd = fc.constantFrom(
      '',
      '\u0000',
      '\ud800',
      '\u202e',
      '__proto__',
      'x'.repeat(3000),
      1e308,
      -1,
      null,
    );
    const members = ['prompt', 'agent', 'grants', 'inputs', 'name', 'model', 'limits', 'note', 'harness'];
    const others = ['labels', 'data', 'outcome', 'response_format', 'as', 'tokens', 'cwd', 'instructions'];
    const { value } = fc.letrec((tie) => ({
      value: fc.oneof(
        { maxDepth: 3 },
        { weight: 3, arbitrary: fc.oneof(odd, fc.string({ unit: 'binary' }), fc.double(), fc.boolean()) },
        { weight: 1, arbitrary: fc.array(tie('value'), { maxLength: 3 }) },
        { weight: 2, arbitrary: fc.dictionary(fc.constantFrom(...members, ...others), tie('value')) },
      ),
    }));
    const body = fc.oneof(
      value.map((one) => JSON.stringify(one) ?? ''),
      fc.string({ unit: 'binary' }),
      fc.constantFrom('', '{', '['.repeat(5000), '{"prompt":"\\ud800"}', '\ufeff{}'),
    );
    const type = fc.constantFrom('application/json', 'application/json', 'text/plain');
    const query = fc.constantFrom('', '', '?after=1e3', '?limit=%F0', '?after=1&after=2');
    // The feed of events has no end; test/http/agent-events.test.ts has its parameters.
    const ending = routes.filter(({ method, path }) => method !== 'GET' || path !== '/agent/v1/events');
    const writing = ending.filter(({ method }) => method !== 'GET');
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...writing, ...ending),
        fc.constantFrom(...ids),
        body,
        type,
        query,
        async ({ method, path }, id, text, content, behind) => {
          const requestOptions = { method, path: path.replace(/\{\w+\}/, id) + behind };
          const bare = method === 'GET' || method === 'DELETE';
          const answer = await send(
            bare ? requestOptions : { ...requestOptions, headers: { 'content-type': content }, body: text },
          );
          // A task of the default agent is valid, but this host has no model.
          if (answer.status === 503) expect(answer.text).toContain('"code":"no_resident_model"');
          else expect(answer.status, answer.text).toBeLessThan(500);
        },
      ),
      { numRuns: rounds(400, 133) },
    );
    await alive();
  });

  it('survives endless validation of an answer against the requested schema', async () => {
    const pair = (level: number) => Array.from({ length: 2 }, () => ({ $ref: `#/$defs/d${level}` }));
    const defs = Array.from({ length: 40 }, (_, level) => [`d${level}`, { allOf: pair(level + 1) }]);
    const schema = { $ref: '#/$defs/d0', $defs: { ...Object.fromEntries(defs), d40: { type: 'string' } } };
    script.push({ text: '{}' }, { text: '{}' }, { text: '{}' });
    const lines = await task({ response_format: { type: 'json_schema', json_schema: { schema } } });
    expect(lines.at(-1)).toMatchObject({
      type: 'aborted',
      message: expect.stringContaining('takes too long') as string,
    });
    await alive();
  });

  it('limits the staged changes of a task', async () => {
    const turns = Array.from({ length: 5 }, (_, turn) => ({
      calls: Array.from({ length: 30 }, (__, n) => write(1 + turn * 30 + n)),
    }));
    script.push(...turns);
    const lines = await task({});
    expect(lines.filter(({ type }) => type === 'staged')).toHaveLength(100);
    const refused = lines.filter(({ type, ok }) => type === 'tool_result' && ok === false);
    expect(refused).toHaveLength(50);
    expect(refused[0]?.['output']).toContain('wait for a person already');
    expect(lines.at(-1)).toMatchObject({ type: 'answer' });
  });
});
