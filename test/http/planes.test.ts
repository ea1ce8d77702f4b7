import { describeModel } from '../../src/cli/ready-line.ts';
import { connect } from 'node:net';
import { afterEach, describe, expect, test } from 'vitest';
import { hostError, openaiError } from '../../src/planes/error-schema.ts';
import { llamaError } from '../../src/wires/llama-cpp/error.ts';
import { health } from '../../src/planes/health/schema.ts';
import { hostHealth, hostTelemetry, substrateInfo } from '../../src/planes/host/schema.ts';
import { modelEntry, modelList } from '../../src/wires/core/models-schema.ts';
import { readEvents, serveScripted } from '../support/serve.ts';

const hosts: { close(): Promise<void> }[] = [];
async function serve(...options: Parameters<typeof serveScripted>) {
  const host = await serveScripted(...options);
  hosts.push(host);
  return host;
}
afterEach(async () => {
  await Promise.all(hosts.splice(0).map((host) => host.close()));
});

const hi = { messages: [{ role: 'user', content: 'hi' }] };

describe('with a model', () => {
  test('health, info and models name it and match their schemas', async () => {
    const { get } = await serve();
    expect(health.strict().parse(await (await get('/health')).json()).planes).toEqual([
      'host',
      'v1',
      'messages',
      'ollama',
      'llama-cpp',
      'lab',
    ]);
    expect(hostHealth.parse(await (await get('/host/v1/health')).json()).model).toBe('scripted');
    const info = substrateInfo.strict().parse(await (await get('/host/v1/info')).json());
    expect(info).toMatchObject({
      protocol_version: '1.4.0',
      contract_version: '1.4.0',
      endpoint_id: 'e0',
      completions_served: 0,
      model: { id: 'scripted', context_length: 4096 },
    });
    const list = modelList.parse(await (await get('/v1/models')).json());
    expect(list.data.map(({ id }) => id)).toEqual(['scripted']);
    expect(modelEntry.parse(await (await get('/v1/models/scripted')).json()).id).toBe('scripted');
    const absent = await get('/v1/models/other');
    expect(absent.status).toBe(404);
    expect(openaiError.parse(await absent.json()).error.code).toBe('model_not_found');
  });

  test('kernels that were replaced because they are wrong are named', async () => {
    const { get, engine } = await serve();
    const infoOf = async () => substrateInfo.strict().parse(await (await get('/host/v1/info')).json());
    expect((await infoOf()).adapter).not.toHaveProperty('replaced_kernels');
    const replaced = { kernel: 'matvec.wgsl q8_0 subgroups', reason: 'layers.0.attn.qkv y: 1 instead of 2' };
    engine.replacedKernels = [replaced];
    expect((await infoOf()).adapter?.replaced_kernels).toEqual([replaced]);
    expect(describeModel(engine)).toBe(
      'model scripted (script, F32, 1) on scripted (none), without kernels that are wrong there: matvec.wgsl q8_0 subgroups',
    );
  });

  test('a model id with slashes is found plain and encoded; HEAD answers without a body', async () => {
    const { get, engine } = await serve();
    Object.assign(engine.model, { id: 'a/b c' });
    for (const path of ['/v1/models/a/b%20c', '/v1/models/a%2Fb%20c']) {
      expect(modelEntry.parse(await (await get(path)).json()).id).toBe('a/b c');
      const head = await get(path, { method: 'HEAD' });
      expect([head.status, await head.text()]).toEqual([200, '']);
    }
    expect((await get('/v1/models', { method: 'HEAD' })).status).toBe(200);
    expect((await get('/v1/models/a', { method: 'HEAD' })).status).toBe(404);
  });

  test('telemetry: streamed completions count as served without tokens; refused ones do not count', async () => {
    const { get, post } = await serve();
    const total = async () => hostTelemetry.strict().parse(await (await get('/host/v1/telemetry')).json());
    expect(await total()).toMatchObject({
      served: { completions: 0, tasks: 0, workflow_runs: 0 },
      measured_completions: 0,
    });
    const answer = (await (await post('/v1/chat/completions', hi)).json()) as {
      usage: { prompt_tokens: number };
    };
    await readEvents(await post('/v1/chat/completions', { ...hi, stream: true }));
    await post('/v1/chat/completions', { messages: [] });
    expect(await total()).toMatchObject({
      served: { completions: 2 },
      tokens: { prompt: answer.usage.prompt_tokens, completion: 4 },
      measured_completions: 1,
    });
    expect(
      ((await (await get('/host/v1/info')).json()) as { completions_served: number }).completions_served,
    ).toBe(2);
  });
});

describe('what the telemetry measures', () => {
  test('coverage lists exactly the routes whose buffered answers are measured', async () => {
    const { get, post, planes } = await serve({ fim: true });
    const total = async () => hostTelemetry.strict().parse(await (await get('/host/v1/telemetry')).json());
    const completions = planes
      .flatMap(({ routes }) => routes)
      .filter(
        ({ completion }) =>
          completion !== undefined && !['embeddings', 'rerank'].includes(completion.operation),
      )
      .map(({ path }) => path);
    const { coverage } = await total();
    expect(coverage.match(/\/[\w/]+/g)?.toSorted()).toEqual(completions.toSorted());
    const body = { ...hi, model: 'scripted', max_tokens: 4, stream: false };
    const other = { prompt: 'hi', input_prefix: 'a', input_suffix: 'b' };
    for (const [index, path] of completions.entries()) {
      const requestBody = /\/responses(?:\/compact)?$/.test(path)
        ? { model: 'scripted', input: 'hi', stream: false }
        : { ...body, ...other };
      const answer = await post(path, requestBody);
      expect([path, answer.status, await answer.text()]).toEqual([path, 200, expect.any(String)]);
      const { measured_completions, tokens } = await total();
      expect([path, measured_completions]).toEqual([path, index + 1]);
      expect(tokens.completion).toBeGreaterThan(index);
    }
  });
});

describe('without a model', () => {
  test("planes that need no model work, completions answer 503 in OpenAI's envelope", async () => {
    const { get, post } = await serve({}, 'none');
    expect((await get('/health')).status).toBe(200);
    expect(hostHealth.parse(await (await get('/host/v1/health')).json())).toEqual({
      model: '',
      status: 'no_model',
    });
    expect(substrateInfo.parse(await (await get('/host/v1/info')).json())).toMatchObject({
      model: null,
      adapter: null,
    });
    expect(await (await get('/v1/models')).json()).toEqual({
      object: 'list',
      data: [],
      has_more: false,
      first_id: null,
      last_id: null,
    });
    for (const response of [
      await post('/v1/chat/completions', hi),
      await post('/v1/completions', { prompt: 'a', stream: true }),
      await get('/v1/models/scripted'),
    ]) {
      expect(response.status).toBe(503);
      expect(openaiError.parse(await response.json()).error).toMatchObject({
        code: 'no_resident_model',
        message: expect.stringContaining('--gpu'),
      });
    }
  });
});

describe('while a model loads', () => {
  test("health is llama.cpp's 503, completions are 503 with Retry-After, until it is loaded", async () => {
    const { get, post, resident, engine } = await serve({}, 'loading');
    const waiting = await get('/health');
    expect(waiting.status).toBe(503);
    expect(llamaError.strict().parse(await waiting.json())).toEqual({
      error: { code: 503, message: 'Loading model', type: 'unavailable_error' },
    });
    for (const response of [
      waiting,
      await post('/v1/chat/completions', hi),
      await get('/v1/models'),
      await get('/host/v1/health'),
    ]) {
      expect(response.status).toBe(503);
      expect(response.headers.get('retry-after')).toBe('1');
    }
    expect((await get('/host/v1/info')).status).toBe(200);
    resident.setReady(engine);
    expect((await get('/health')).status).toBe(200);
    expect((await post('/v1/chat/completions', hi)).status).toBe(200);
  });
});

describe('routing', () => {
  test('unknown paths are 404 in the envelope of their plane', async () => {
    const { get } = await serve();
    const native = await get('/host/v1/nothing');
    expect(native.status).toBe(404);
    expect(hostError.parse(await native.json()).error.code).toBe('not_found');
    const openai = await get('/v1/nothing');
    expect(openai.status).toBe(404);
    expect(openaiError.strict().parse(await openai.json()).error).toMatchObject({
      param: null,
      code: 'not_found',
    });
    expect(hostError.safeParse(await (await get('/nothing')).json()).success).toBe(true);
    expect((await get('/%zz')).status).toBe(404);
  });

  test('wrong methods are 405 with Allow, HEAD answers like GET', async () => {
    const { get } = await serve();
    for (const [path, method, allow] of [
      ['/v1/chat/completions', 'GET', 'POST'],
      ['/v1/models', 'DELETE', 'GET, HEAD'],
      ['/health', 'POST', 'GET, HEAD'],
    ] as const) {
      const response = await get(path, { method });
      expect([response.status, response.headers.get('allow')]).toEqual([405, allow]);
      expect(response.headers.get('x-request-id')).toMatch(/^req_/);
    }
    const head = await get('/health', { method: 'HEAD' });
    expect([head.status, await head.text()]).toEqual([200, '']);
  });

  test('the control socket serves host and health, no completions', async () => {
    const { control } = await serve();
    expect(control.flatMap(({ routes }) => routes.map(({ path }) => path))).toEqual([
      '/health',
      '/ready',
      '/host/v1/info',
      '/host/v1/health',
      '/host/v1/telemetry',
      '/openapi.json',
      '/docs',
    ]);
  });
});

describe('the docs page', () => {
  test('has no scripts and no external addresses, and a policy that forbids both', async () => {
    const { get } = await serve();
    const response = await get('/docs');
    expect(response.headers.get('content-type')).toContain('text/html');
    const policy = response.headers.get('content-security-policy') ?? '';
    expect(policy).toContain("default-src 'none'");
    expect(policy).not.toMatch(/unsafe|script-src|https?:/);
    const html = await response.text();
    expect(html).not.toMatch(/<script|<link|<img|@import|src=|https?:\/\//i);
    const document = (await (await get('/openapi.json')).json()) as {
      paths: object;
      components: { schemas: object };
    };
    for (const path of Object.keys(document.paths)) expect(html).toContain(path);
    for (const name of Object.keys(document.components.schemas)) expect(html).toContain(`id="${name}"`);
  });
});

describe('the Host-header guard on a real socket', () => {
  const ask = (port: number, lines: readonly string[]) =>
    new Promise<string>((resolve, reject) => {
      const socket = connect(port, '127.0.0.1', () => socket.write(`${lines.join('\r\n')}\r\n\r\n`));
      let answer = '';
      socket.on('data', (data) => {
        answer += data.toString();
        if (answer.includes('\r\n\r\n')) socket.end();
      });
      socket.on('close', () => resolve(answer));
      socket.on('error', reject);
    });

  test.each([
    ['localhost', 200],
    ['LocalHost:80', 200],
    ['127.0.0.1:8080', 200],
    ['[::1]:9', 200],
    ['my.box', 200],
    ['evil.com', 403],
    ['localhost.evil.com', 403],
    ['localhost.', 403],
    ['127.0.0.1.nip.io:8080', 403],
    ['', 403],
  ])('Host: %s answers %i', async (host, status) => {
    const { port } = await serve();
    const answer = await ask(port, ['GET /v1/models HTTP/1.1', `Host: ${host}`]);
    expect(answer).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
    expect(answer.toLowerCase()).toContain('x-request-id: req_');
    if (status === 403) expect(answer).toContain('"code":"foreign_host"');
  });

  test('no Host, two Hosts and a foreign absolute target are refused', async () => {
    const { port } = await serve();
    const absent = await ask(port, ['GET /v1/models HTTP/1.1']);
    expect(absent).toMatch(/^HTTP\/1.1 400 /);
    expect(absent).toContain('"code":"bad_host_header"');
    const onLlamaCpp = await ask(port, ['GET /health HTTP/1.1']);
    expect(onLlamaCpp).toMatch(/^HTTP\/1.1 400 /);
    expect(onLlamaCpp).toContain('"code":400');
    expect(await ask(port, ['GET /health HTTP/1.0'])).toMatch(/^HTTP\/1.1 400 /);
    expect(await ask(port, ['GET /health HTTP/1.1', 'Host: localhost', 'Host: evil.com'])).toMatch(
      /^HTTP\/1.1 400 /,
    );
    expect(await ask(port, ['GET http://evil.com/health HTTP/1.1', 'Host: localhost'])).toMatch(
      /^HTTP\/1.1 403 /,
    );
    expect(await ask(port, ['GET http://localhost/health HTTP/1.1', 'Host: localhost'])).toMatch(
      /^HTTP\/1.1 200 /,
    );
  });

  test('a rebound name can neither read nor post', async () => {
    const { port, engine } = await serve();
    const body = JSON.stringify(hi);
    const answer = await ask(port, [
      'POST /v1/chat/completions HTTP/1.1',
      'Host: rebound.evil.com',
      'Origin: http://rebound.evil.com',
      'Content-Type: application/json',
      `Content-Length: ${body.length}`,
      '',
      body,
    ]);
    expect(answer).toMatch(/^HTTP\/1.1 403 /);
    expect(engine.requests).toEqual([]);
  });
});

test.each([
  ['GARBAGE\r\n\r\n', 400, 'bad_request'],
  [
    `GET /v1/models HTTP/1.1\r\nHost: localhost\r\nx: ${'a'.repeat(20_000)}\r\n\r\n`,
    431,
    'headers_too_large',
  ],
  ['GET /v1/models HTTP/1.1\r\nHost: localhost\r\nExpect: wonders\r\n\r\n', 417, 'expectation_failed'],
])(
  'requests that Node itself refuses get a request id and a body too (%#)',
  async (request, status, code) => {
    const { port, get } = await serve();
    const answer = await new Promise<string>((resolve, reject) => {
      const socket = connect(port, '127.0.0.1', () => socket.write(request));
      let received = '';
      socket.on('data', (data) => {
        received += data.toString();
      });
      socket.on('close', () => resolve(received));
      socket.on('error', reject);
    });
    const [head = '', body = ''] = answer.split('\r\n\r\n');
    expect(head).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `));
    expect(head).toMatch(/x-request-id: req_\w{24}/);
    expect(hostError.parse(JSON.parse(body)).error.code).toBe(code);
    expect((await get('/health')).status).toBe(200);
  },
);
