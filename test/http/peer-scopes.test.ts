import { networkInterfaces } from 'node:os';
import { DatabaseSync } from 'node:sqlite';
import { join } from 'node:path';
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { peerScopes } from '../../src/agent/shapes/peer-scope.ts';
import { freshDataDir, type HostProcess, startSource } from '../support/host.ts';

// Tokens of peers, limited in what they open and for how long, on a host that listens beyond loopback with all its planes.

const outside =
  Object.values(networkInterfaces())
    .flatMap((many) => many ?? [])
    .find(({ internal, family }) => !internal && family === 'IPv4')?.address ?? '127.0.0.1';

/** Every operation of the host, by its accepted scopes. */
const expected: Readonly<Record<string, string>> = {
  none: 'followChanges createSession getSession deleteSession getHealth getReady getHostHealth llamaCppHealth getOpenApi getDocs ingestEvents',
  read: `getMetrics getHostInfo getHostModels getHostTelemetry getHostSessions getHostServed getHostHarnesses
    listSurfaces getSurfaceSchema queryObserved askQuestion listRacks getRack
    getLabGraph getLabParts getLabKernels getLabKernel listLabKernelVersions getLabKernelVersion listLabOps getLabStub getLabParityMode
    listLabBenches listFinishedLabBenches getFinishedLabBench listLabConfigs getLabConfig`,
  'read infer': `listModels getModel getResponse listInputItems llamaCppModels llamaCppProps llamaCppSlots
    ollamaRunning ollamaVersion ollamaStatus ollamaHasBlob ollamaTags ollamaPs ollamaShow`,
  infer: `createChatCompletion createCompletion createEmbedding createRerank createRerankV2 llamaCppRerank llamaCppReranking llamaCppV1Reranking createResponse countResponseTokens compactResponse cancelResponse deleteResponse
    createMessage countMessageTokens
    llamaCppChatCompletions llamaCppResponses llamaCppCompletion llamaCppCompletions llamaCppInfill llamaCppEmbedding llamaCppEmbeddings
    llamaCppTokenize llamaCppDetokenize llamaCppApplyTemplate
    ollamaChat ollamaGenerate ollamaEmbed ollamaEmbeddings`,
  'read agent approve': `listAgents getAgent getTask listTasks readTaskEvents listTools listRuns getRun readRunEvents listSessions
    getReceipt listWorkflows getWorkflow listBuiltinWorkflows lintWorkflow listPendingChanges getPendingChange listActs
    streamEvents listWebhooks`,
  agent: `createTask sendTaskMessage stopTask runWorkflow emitEvent pauseRun resumeRun runNow cancelSession revokeSession
    registerSession beatSession endSession`,
  approve: `approvePendingChange approvePendingChanges editPendingChange discardPendingChange createAgent putAgent deleteAgent
    createWorkflow putWorkflow deleteWorkflow forkWorkflow`,
  all: `llamaCppSetProps ollamaPull ollamaCreate ollamaDelete ollamaCopy ollamaPutBlob ollamaPush ollamaMe ollamaSignout
    registerLabKernel deleteLabKernel profileLabKernel bindLabKernel unbindLabKernels unbindLabComponents setLabParityMode postLabParityMode runLabParity validateLabConfig
    runLabBench cancelLabBench saveLabConfig deleteLabConfig importLabConfig putRack purgeRack listGrants reviewRecorder`,
};

interface Operation {
  readonly method: string;
  readonly path: string;
  readonly id: string;
}

let host: HostProcess;
let url = '';
let control = '';
const dataDir = freshDataDir();
let operator: Record<string, string> = {};
let operations: Operation[] = [];

const json = { 'content-type': 'application/json' };
const mint = async (body: object) => {
  const headers = { ...json, ...operator };
  const answer = await fetch(`${control}/host/v1/peers`, {
    method: 'POST',
    headers,
    body: JSON.stringify(body),
  });
  return { status: answer.status, body: (await answer.json()) as Record<string, unknown> };
};
const tokenOf = async (body: object) => {
  const minted = await mint(body);
  expect([minted.status, minted.body]).toEqual([201, expect.any(Object)]);
  return { authorization: `Bearer ${String(minted.body['token'])}` };
};
const roster = async () => {
  const answer = await fetch(`${control}/host/v1/peers`, { headers: operator });
  return ((await answer.json()) as { peers: Record<string, unknown>[] }).peers;
};

beforeAll(async () => {
  const ports = ['--host', '0.0.0.0', '--port', '0', '--control-port', '0'];
  host = startSource([...ports, '--data-dir', dataDir]);
  url = (await host.url()).replace('0.0.0.0', outside);
  control = (await host.waitFor('stdout', /control at (http:[^\s)]+)/))[1] ?? '';
  operator = { 'x-svc-operator': readFileSync(join(dataDir, 'operator.token'), 'utf8').trim() };
  const bearer = readFileSync(join(dataDir, 'bearer.token'), 'utf8').trim();
  const document = (await (
    await fetch(`${url}/openapi.json`, { headers: { authorization: `Bearer ${bearer}` } })
  ).json()) as { paths: Record<string, Record<string, { operationId: string }>> };
  operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, { operationId: id }]) => ({
      method: method.toUpperCase(),
      path: path.replaceAll(/\{\w+\}/g, 'nobody'),
      id,
    })),
  );
});
afterAll(() => host?.end());

describe('a token with a scope', () => {
  it('is accepted exactly on the routes of its scope, on every mounted route', async () => {
    const decided = Object.entries(expected).flatMap(([needed, ids]) =>
      ids.split(/\s+/).map((id) => [id, needed] as const),
    );
    // A new route must be listed here with its scopes.
    expect(operations.map(({ id }) => id).toSorted()).toEqual(decided.map(([id]) => id).toSorted());
    const neededOf = new Map(decided);
    for (const scope of peerScopes) {
      const headers = await tokenOf({ name: `only-${scope}`, scope: [scope] });
      for (const { method, path, id } of operations) {
        const answer = await fetch(url + path, { method, headers });
        // Streams of events have no end.
        const isEndless = answer.ok && (id === 'streamEvents' || id === 'followChanges');
        const body = isEndless ? '' : await answer.text();
        if (isEndless) await answer.body?.cancel();
        const needed = neededOf.get(id) ?? '';
        const isOpen = needed === 'none' || needed.split(' ').includes(scope);
        const challenge = answer.headers.get('www-authenticate');
        const refused = challenge?.startsWith('Bearer error="insufficient_scope"') ?? false;
        expect([scope, id, isOpen, refused]).toEqual([scope, id, isOpen, !isOpen]);
        if (isOpen) continue;
        expect(answer.status).toBe(403);
        if (needed === 'all') expect(body).toContain('without a scope');
        else expect(challenge).toContain(`scope="${needed}"`);
      }
    }
  });

  it('is accepted by the gateway only with infer, and for pages with any scope', async () => {
    for (const scope of peerScopes) {
      const headers = await tokenOf({ name: `gateway-${scope}`, scope: [scope] });
      for (const path of ['/gateway/v1/catalog', '/gateway/v1/no-such-route']) {
        const { status } = await fetch(url + path, { headers });
        expect([scope, path, status === 403]).toEqual([scope, path, scope !== 'infer']);
      }
      expect((await fetch(`${url}/host/v1/session`, { method: 'POST', headers })).status).toBe(200);
      // Unknown paths are not accessible.
      expect((await fetch(`${url}/no/such/route`, { headers })).status).toBe(404);
    }
  });

  it('may have several scopes; a token without scopes is unrestricted', async () => {
    const two = await tokenOf({ name: 'two', scope: ['approve', 'read', 'read'] });
    for (const [path, status] of [
      ['/host/v1/info', 200],
      ['/agent/v1/pending', 200],
      ['/recorder/v1/review', 403],
    ] as const)
      expect([path, (await fetch(url + path, { headers: two })).status]).toEqual([path, status]);
    const chat = await fetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      headers: { ...two, ...json },
      body: '{}',
    });
    expect([chat.status, await chat.json()]).toMatchObject([
      403,
      { error: { code: 'insufficient_scope', message: expect.stringContaining("'infer'") } },
    ]);
    const all = await tokenOf({ name: 'all' });
    for (const { method, path, id } of operations.filter(({ method: verb }) => verb === 'GET')) {
      const answer = await fetch(url + path, { method, headers: all });
      await answer.body?.cancel();
      expect([id, answer.headers.get('www-authenticate')]).toEqual([id, null]);
    }
    expect((await fetch(`${url}/lab/v1/bindings`, { method: 'DELETE', headers: all })).status).toBe(503);
  });

  it('is listed with its limits, by default none', async () => {
    const expires_at = new Date(Date.now() + 3_600_000).toISOString();
    const limited = await mint({ name: 'limited', scope: ['infer', 'read'], expires_at });
    expect(limited).toMatchObject({ status: 201, body: { scope: ['read', 'infer'], expires_at } });
    expect(await mint({ name: 'unlimited' })).toMatchObject({
      status: 201,
      body: { scope: null, expires_at: null },
    });
    const rows = await roster();
    expect(rows).toContainEqual(
      expect.objectContaining({ name: 'limited', scope: ['read', 'infer'], expires_at, revoked: false }),
    );
    expect(rows).toContainEqual(
      expect.objectContaining({ name: 'unlimited', scope: null, expires_at: null }),
    );
  });

  it.each([
    [{ name: 'x', scope: ['write'] }, 'scope.0'],
    [{ name: 'x', scope: [] }, 'scope'],
    [{ name: 'x', scope: 'read' }, 'scope'],
    [{ name: 'x', scopes: ['read'] }, "did you mean 'scope'"],
    [{ name: 'x', expires_at: 'tomorrow' }, 'expires_at'],
    [{ name: 'x', expires_at: '2001-01-01T00:00:00Z' }, 'expires_at'],
    [{ name: 'x', expires_at: '2999-01-01T00:00:00Z' }, 'expires_at'],
    [{ name: 'x', expires: '2999-01-01T00:00:00Z' }, 'expires'],
  ])('is not minted with invalid limits: %j', async (body, named) => {
    const answer = await mint(body);
    expect(answer.status).toBe(400);
    expect(JSON.stringify(answer.body)).toContain(named);
    expect((await roster()).map(({ name }) => name)).not.toContain('x');
  });
});

it('an expired token is refused with a 401 that says so; before, it is accepted', async () => {
  const expires_at = new Date(Date.now() + 3_600_000).toISOString();
  const headers = await tokenOf({ name: 'brief', expires_at });
  const info = () => fetch(`${url}/host/v1/info`, { headers });
  expect((await info()).status).toBe(200);
  // As if it had been minted with a past expiry.
  const past = '2001-01-01T00:00:00.000Z';
  const db = new DatabaseSync(join(dataDir, 'lathe.db'), { timeout: 5000 });
  db.prepare('update peers set expires_at = ? where name = ?').run(past, 'brief');
  db.close();
  const refused = await info();
  expect([refused.status, await refused.json()]).toMatchObject([
    401,
    { error: { code: 'peer_token_expired', message: expect.stringContaining(past) } },
  ]);
  expect(refused.headers.get('www-authenticate')).toMatch(/^Bearer error="invalid_token"/);
  expect((await fetch(`${url}/health`, { headers })).status).not.toBe(401);
  // Its name can be used again after it is revoked.
  expect((await mint({ name: 'brief' })).status).toBe(409);
  await fetch(`${control}/host/v1/peers/brief`, { method: 'DELETE', headers: operator });
  expect((await mint({ name: 'brief' })).status).toBe(201);
});
