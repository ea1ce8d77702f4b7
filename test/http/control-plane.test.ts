import { createPublicKey } from 'node:crypto';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { networkInterfaces } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { findReceiptFault } from '../../src/agent/receipts/verify-receipts.ts';
import {
  hostTelemetry,
  servedCapabilities,
  servedHarnesses,
  servedSessions,
  substrateInfo,
} from '../../src/planes/host/schema.ts';
import { freshDataDir, type HostProcess, startScriptedHost } from '../support/host.ts';
import { readPrometheus } from '../support/prometheus.ts';

/** What comes of a stream before it is quiet for a while. */
async function readUntilQuiet({ body }: Response): Promise<string> {
  const reader = body?.getReader();
  const decoder = new TextDecoder();
  let text = '';
  for (;;) {
    const quiet = new Promise<undefined>((resolve) => setTimeout(resolve, 300, undefined));
    const next = await Promise.race([reader?.read(), quiet]);
    if (next?.value === undefined) break;
    text += decoder.decode(next.value, { stream: true });
  }
  await reader?.cancel();
  return text;
}

const json = { 'content-type': 'application/json' };
const outside =
  Object.values(networkInterfaces())
    .flatMap((many) => many ?? [])
    .find(({ internal, family }) => !internal && family === 'IPv4')?.address ?? '127.0.0.1';

/** A host of the product over a scripted engine, with its control socket and credentials. */
async function startHost(dataDir: string, more: readonly string[] = []) {
  const flags = ['--gpu', '--port', '0', '--control-port', '0', '--data-dir', dataDir];
  const host = startScriptedHost([...flags, ...more]);
  const url = (await host.url()).replace('0.0.0.0', outside);
  const [, control = ''] = await host.waitFor('stdout', /control\D*(http:\/\/\S+?)[,;)\s]/);
  const token = (name: string) => readFileSync(join(dataDir, name), 'utf8').trim();
  return {
    host,
    url,
    control,
    bearer: { authorization: `Bearer ${token('bearer.token')}` },
    operator: { 'x-svc-operator': token('operator.token') },
    tokens: [token('bearer.token'), token('operator.token')],
  };
}

describe('the control plane', () => {
  let host: HostProcess;
  let at: Awaited<ReturnType<typeof startHost>>;
  beforeAll(async () => {
    at = await startHost(freshDataDir());
    host = at.host;
  });
  afterAll(() => host.end());
  const get = (path: string, headers: Record<string, string> = {}) => fetch(at.url + path, { headers });
  const post = (url: string, body: unknown, headers: Record<string, string> = {}) =>
    fetch(url, { method: 'POST', headers: { ...json, ...headers }, body: JSON.stringify(body) });
  const peers = () => `${at.control}/host/v1/peers`;

  test('the identity card has the planner, the enforcement tier and the receipt key', async () => {
    const info = substrateInfo.strict().parse(await (await get('/host/v1/info')).json());
    expect(info.planner.kind).not.toBe('none');
    expect(['path', 'os_sandbox']).toContain(info.enforcement_tier);
    expect(info.capabilities).toContain('agent');
    expect(info.receipt_key?.key_id).toMatch(/^ed25519:/);

    const made = await post(`${at.url}/agent/v1/sessions`, { harness: 'make' });
    const { id, secret } = (await made.json()) as { id: string; secret: string };
    const headers = { 'x-svc-session-secret': secret };
    await post(`${at.url}/agent/v1/sessions/${id}/end`, { outcome: 'completed' }, headers);
    const receipt: unknown = await (await get(`/agent/v1/sessions/${id}/receipt`)).json();
    const x = Buffer.from(info.receipt_key?.public_key ?? '', 'base64').toString('base64url');
    const publicKey = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' });
    expect(findReceiptFault(receipt, publicKey)).toBeUndefined();
    expect(findReceiptFault({ ...(receipt as object), outcome: 'failed' }, publicKey)).toMatch(/digest/);
  });

  test('gated routes require the bearer token on loopback too, and return every member', async () => {
    for (const path of ['/host/v1/sessions', '/host/v1/served', '/host/v1/harnesses']) {
      for (const base of [at.url, at.control])
        for (const headers of [{}, { authorization: 'Bearer wrong' }, at.operator]) {
          const answer = await fetch(base + path, { headers: headers });
          expect([path, answer.status]).toEqual([path, 401]);
          expect(answer.headers.get('www-authenticate')).toBe('Bearer');
        }
      expect((await get(path, at.bearer)).status).toBe(200);
    }
    const endpoint = ((await (await get('/host/v1/info')).json()) as { endpoint_id: string }).endpoint_id;
    const served = servedCapabilities.strict().parse(await (await get('/host/v1/served', at.bearer)).json());
    expect(served).toMatchObject({
      contract: 1,
      endpoint_id: endpoint,
      sessions_plane: true,
      bind: 'loopback',
      control_port: Number(new URL(at.control).port),
      operator_credential: true,
      offering: { models: [{ id: 'scripted', kind: 'generate' }] },
    });
    expect(served.verbs).toContain('revoke');
    await post(`${at.url}/agent/v1/sessions`, { harness: 'cargo' });
    const { harnesses } = servedHarnesses
      .strict()
      .parse(await (await get('/host/v1/harnesses', at.bearer)).json());
    expect(harnesses[0]).toEqual({ name: 'lathe', builtin: true });
    expect(harnesses).toContainEqual(
      expect.objectContaining({ name: 'cargo', builtin: false, open_sessions: 1, sessions: 1 }),
    );
  });

  test('sessions and turns of the last ten minutes, and served counters', async () => {
    const before = hostTelemetry.strict().parse(await (await get('/host/v1/telemetry')).json());
    const task = await post(`${at.url}/agent/v1/tasks`, { prompt: 'hello' });
    expect(task.status).toBe(200);
    await task.text();
    const after = hostTelemetry.strict().parse(await (await get('/host/v1/telemetry')).json());
    expect(after.served.tasks).toBe(before.served.tasks + 1);
    const shown = servedSessions.strict().parse(await (await get('/host/v1/sessions', at.bearer)).json());
    expect(shown.turns[0]).toMatchObject({ kind: 'task', name: 'default' });
    expect(shown.turns[0]?.ended_at).toEqual(expect.any(String));
    expect(shown.sessions.every(({ id }) => /^s[0-9a-f]{8}-\d+$/.test(id))).toBe(true);
  });

  test('peers: on the control socket, for the operator only; the token is shown once', async () => {
    for (const headers of [{}, at.bearer, { 'x-svc-operator': 'wrong' }]) {
      for (const answer of [
        await fetch(peers(), { headers: headers }),
        await post(peers(), { name: 'ann' }, headers),
        await fetch(`${peers()}/ann`, { method: 'DELETE', headers: headers }),
      ])
        expect(answer.status).toBe(401);
    }
    expect((await get('/host/v1/peers', at.operator)).status).toBe(404);
    const minted = await post(peers(), { name: 'ann' }, at.operator);
    expect([minted.status, minted.headers.get('cache-control')]).toEqual([201, 'no-store']);
    const { token, ...rest } = (await minted.json()) as { token: string; name: string; minted_at: string };
    expect(token).toMatch(/^lathe_peer_[\w-]{43}$/);
    expect((await post(peers(), { name: 'ann' }, at.operator)).status).toBe(409);
    for (const name of ['', 'Ann', 'a b', 'x'.repeat(65), 5])
      expect((await post(peers(), { name }, at.operator)).status).toBe(400);
    const roster = async () => (await fetch(peers(), { headers: at.operator })).json();
    expect(await roster()).toEqual({ contract: 1, peers: [{ ...rest, revoked: false }] });
    const remove = (name: string) => fetch(`${peers()}/${name}`, { method: 'DELETE', headers: at.operator });
    expect((await remove('bob')).status).toBe(404);
    for (let again = 0; again < 2; again += 1) expect((await remove('ann')).status).toBe(200);
    expect(await roster()).toEqual({ contract: 1, peers: [{ ...rest, revoked: true }] });
    const reminted = await post(peers(), { name: 'ann' }, at.operator);
    expect(reminted.status).toBe(201);
    expect(((await reminted.json()) as { token: string }).token).not.toBe(token);
  });

  test('metrics in the text format of Prometheus, open on the control socket, with the bearer on the main port', async () => {
    const refused = await get('/metrics');
    expect([refused.status, refused.headers.get('www-authenticate')]).toEqual([401, 'Bearer']);
    const main = await fetch(`${at.url}/metrics`, { headers: at.bearer });
    const answer = await fetch(`${at.control}/metrics`);
    expect([...readPrometheus(await main.text()).keys()]).toEqual([
      ...readPrometheus(await answer.clone().text()).keys(),
    ]);
    expect(answer.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8');
    const families = readPrometheus(await answer.text());
    const samples = new Map([...families].map(([name, family]) => [name, family.samples[0]?.value]));
    expect(samples.get('lathe_info')).toBe(1);
    expect(samples.get('lathe_model_resident')).toBe(1);
    expect(samples.get('lathe_external_sessions')).toBeGreaterThan(0);
    expect(samples.get('lathe_tasks_total')).toBeGreaterThan(0);
  });
});

test('beyond loopback: a peer is accepted until it is revoked; the control socket stays on loopback', async () => {
  const at = await startHost(freshDataDir(), ['--host', '0.0.0.0']);
  try {
    expect(at.control).toContain('127.0.0.1');
    const controlPort = new URL(at.control).port;
    if (outside !== '127.0.0.1')
      await expect(fetch(`http://${outside}:${controlPort}/health`)).rejects.toThrow();
    const peers = `${at.control}/host/v1/peers`;
    const minted = await fetch(peers, {
      method: 'POST',
      headers: { ...json, ...at.operator },
      body: '{"name":"ann"}',
    });
    const { token } = (await minted.json()) as { token: string };
    const asAnn = { authorization: `Bearer ${token}` };
    const info = () => fetch(`${at.url}/host/v1/info`, { headers: asAnn });
    expect((await info()).status).toBe(200);
    const served = await fetch(`${at.url}/host/v1/served`, { headers: asAnn });
    expect(await served.json()).toMatchObject({ bind: 'lan' });
    expect((await fetch(peers, { headers: asAnn })).status).toBe(401);
    expect((await fetch(`${peers}/ann`, { method: 'DELETE', headers: at.operator })).status).toBe(200);
    expect((await info()).status).toBe(401);
  } finally {
    await at.host.end();
  }
});

test('no secret is in the database, in the output, or in any later response', async () => {
  const dataDir = freshDataDir();
  const at = await startHost(dataDir);
  const answers: string[] = [];
  const send = async (method: string, url: string, body?: unknown, headers: Record<string, string> = {}) => {
    const answer = await fetch(url, {
      method,
      headers: { ...json, ...headers },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    // The feed of events has no end.
    const isFeed = answer.headers.get('content-type')?.startsWith('text/event-stream') === true;
    const text = isFeed ? await readUntilQuiet(answer) : await answer.text();
    answers.push(text, JSON.stringify([...answer.headers]));
    return { status: answer.status, text, headers: answer.headers };
  };
  /** Not among the later answers: it is the one that tells the secret. */
  const telling = async (url: string, body: unknown, headers: Record<string, string> = {}) => {
    const answer = await fetch(url, {
      method: 'POST',
      headers: { ...json, ...headers },
      body: JSON.stringify(body),
    });
    return { body: await answer.text(), headers: answer.headers };
  };
  try {
    const sessions = `${at.url}/agent/v1/sessions`;
    const registered = JSON.parse((await telling(sessions, { harness: 'h' })).body) as {
      id: string;
      secret: string;
    };
    const peer = JSON.parse(
      (await telling(`${at.control}/host/v1/peers`, { name: 'ann' }, at.operator)).body,
    ) as { token: string };
    const task = await telling(`${at.url}/agent/v1/tasks`, { prompt: 'hello' });
    const capability = task.headers.get('x-svc-session-secret') ?? '';
    const storeSession = task.headers.get('x-svc-session') ?? '';
    expect(capability).not.toBe('');
    expect(task.body).not.toContain(capability);
    const secret = { 'x-svc-session-secret': registered.secret };
    await send('POST', `${sessions}/${registered.id}/heartbeat`, { status: 'waiting' }, secret);
    await send('POST', `${sessions}/${registered.id}/heartbeat`, { status: 'bad' }, secret);
    await send('POST', `${sessions}/${storeSession}/revoke`, undefined, secret);
    const revoked = await send('POST', `${sessions}/${storeSession}/revoke`, undefined, {
      'x-svc-session-secret': capability,
    });
    expect(revoked.status).toBe(200);
    await send('POST', `${sessions}/${registered.id}/end`, { outcome: 'completed' }, secret);
    await send('GET', `${at.url}/host/v1/nothing`, undefined, { ...at.bearer, ...at.operator });

    // Everything that is readable, with every credential.
    const everything = { ...at.bearer, ...at.operator };
    for (const base of [at.url, at.control]) {
      const described = await send('GET', `${at.url}/openapi.json`);
      const { paths } = JSON.parse(described.text) as { paths: Record<string, Record<string, unknown>> };
      const known = base === at.url ? Object.keys(paths) : ['/host/v1/peers', '/metrics', '/host/v1/info'];
      for (const path of known)
        if (base === at.control || 'get' in (paths[path] ?? {}))
          for (const id of [registered.id, storeSession, 't1', 'ann'])
            await send('GET', `${base + path.replaceAll(/\{\w+\}/g, id)}?after=0`, undefined, everything);
    }

    const secrets = [registered.secret, peer.token, capability, ...at.tokens];
    for (const one of secrets) {
      expect(one).toMatch(/^lathe_[a-z]+_[\w-]{43}$/);
      const raw = Buffer.from(one.replace(/^lathe_[a-z]+_/, ''), 'base64url');
      for (const text of [...answers, at.host.output.stdout, at.host.output.stderr])
        expect(text.includes(one)).toBe(false);
      const files = readdirSync(dataDir, { recursive: true, encoding: 'utf8' }).filter(
        (name) => !name.endsWith('.token') && statSync(join(dataDir, name)).isFile(),
      );
      expect(files.length).toBeGreaterThan(2);
      for (const name of files) {
        const bytes = readFileSync(join(dataDir, name));
        expect([name, bytes.includes(one), bytes.includes(raw)]).toEqual([name, false, false]);
      }
    }
  } finally {
    await at.host.end();
  }
});
