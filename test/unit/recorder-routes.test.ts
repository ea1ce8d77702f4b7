import { describe, expect, it } from 'vitest';
import { Access } from '../../src/planes/access.ts';
import { createApp } from '../../src/http/app.ts';
import { openapiDocument } from '../../src/http/openapi.ts';
import { recorderErrorSchema } from '../../src/planes/recorder/envelope.ts';
import { grantsAnswer, reviewAnswer } from '../../src/planes/recorder/grant-schema.ts';
import { ingestAnswer } from '../../src/planes/recorder/ingest-schema.ts';
import { rackAnswer, racksAnswer, tombstoneAnswer } from '../../src/planes/recorder/rack-schema.ts';
import { createRecorderPlane } from '../../src/planes/recorder/routes.ts';
import { RecorderError, type RecorderErrorKind } from '../../src/recorder/errors.ts';
import type { Recorder } from '../../src/recorder/recorder.ts';
import type { RecorderService } from '../../src/recorder/services.ts';
import { hashSecret } from '../../src/signing/secret.ts';
import { recorders } from '../support/recorders.ts';

const bearer = 'lathe_bearer_of-the-tests-only';
const openRecorder = recorders();
/** The recorder of the tests that change nothing. */
const shared = openRecorder('shared');
const tomorrow = () => new Date(Date.now() + 86_400_000);

function serving(recorder: RecorderService, { hasBearer = true } = {}) {
  const faults: unknown[] = [];
  const app = createApp({
    planes: [createRecorderPlane(recorder)],
    access: new Access({
      bind: 'loopback',
      bearerHash: hasBearer ? hashSecret(bearer) : undefined,
      operatorHash: undefined,
      findPeer: (token) => Promise.resolve(token === 'of-a-peer' ? { name: 'desk', scope: null } : undefined),
    }),
    stopSignal: new AbortController().signal,
    onFault: (_, error) => faults.push(error),
  });
  const send = async (
    method: string,
    path: string,
    { body, token, headers }: { body?: unknown; token?: string; headers?: Record<string, string> } = {},
  ) => {
    const answer = await app.request(`http://127.0.0.1/recorder/v1${path}`, {
      method,
      headers: {
        authorization: `Bearer ${bearer}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...(token === undefined ? {} : { 'x-svc-write-token': token }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    });
    return { status: answer.status, headers: answer.headers, body: (await answer.json()) as unknown };
  };
  return { app, send, faults };
}

/** Armed for all texts, with a token that writes. */
async function armedRack(recorder: Recorder, rack = 'external', content: 'metadata' | 'full' = 'full') {
  await recorder.change(rack, { armed: true, policy: { content } }, 'bearer');
  await recorder.grant({ rack, verbs: ['read', 'write'], expiresAt: tomorrow(), to: 'bearer' }, 'operator');
  return await recorder.mintToken({ rack }, 'operator');
}
const event = (id: string, more: object = {}) => ({
  id,
  at: '2030-01-31T12:00:00Z',
  kind: 'message',
  ...more,
});
const violationsOf = (body: unknown) =>
  recorderErrorSchema.parse(body).error.violations?.map(({ path, message }) => `${path}: ${message}`);

const doors = [
  ['GET', '/racks', 'rack'],
  ['GET', '/racks/agent', 'rack'],
  ['PUT', '/racks/agent', 'rack'],
  ['DELETE', '/racks/agent/history', 'rack'],
  ['GET', '/grants', 'grant'],
  ['GET', '/review', 'review'],
  ['POST', '/ingest', 'ingest'],
] as const;

it('refuses event ids that cannot be stored distinctly, and stores none of them', async () => {
  const { recorder } = await openRecorder('surrogates');
  const { token } = await armedRack(recorder);
  const { send } = serving(recorder);
  const body = { events: [event('a\ud800'), event('a\ud801', { subject: '\udfff' })] };
  const answer = await send('POST', '/ingest', { token, body });
  expect(answer.status).toBe(400);
  expect(violationsOf(answer.body)).toEqual(
    ['events.0.id', 'events.1.id', 'events.1.subject'].map(
      (path) => `${path}: expected Unicode text, got half a surrogate pair`,
    ),
  );
  const content = await send('POST', '/ingest', {
    token,
    body: { events: [event('b', { content: 'a\ud800' })] },
  });
  expect(content).toMatchObject({ status: 200, body: { data: { accepted: 1, duplicates: 0 } } });
});

describe('who may come in', () => {
  it.each(doors)(
    '%s %s asks for the bearer, on loopback too, before a body is read',
    async (method, path, noun) => {
      const { recorder } = await shared;
      for (const hasBearer of [true, false])
        for (const authorization of ['', 'Bearer wrong', hasBearer ? 'Basic x' : `Bearer ${bearer}`]) {
          let read = false;
          const body = new ReadableStream(
            {
              pull() {
                read = true;
                throw new Error('read');
              },
            },
            { highWaterMark: 0 },
          );
          const { app, faults } = serving(recorder, { hasBearer });
          const answer = await app.request(
            new Request(`http://127.0.0.1/recorder/v1${path}`, {
              method,
              headers: { 'content-type': 'application/json', authorization },
              ...(method === 'GET' ? {} : { body, duplex: 'half' }),
            }),
          );
          expect(answer.status).toBe(401);
          expect(answer.headers.get('www-authenticate')).toBe('Bearer');
          expect(recorderErrorSchema.parse(await answer.json())).toMatchObject({
            noun,
            error: { code: 'unauthorized' },
          });
          expect([read, faults]).toEqual([false, []]);
        }
    },
  );

  it('a peer can read racks, but not change policies, delete history or read the review', async () => {
    const { recorder } = await openRecorder('peer');
    const { send } = serving(recorder);
    const peer = { authorization: 'Bearer of-a-peer' };
    const tried = [
      ['PUT', '/racks/agent', { armed: true }],
      ['DELETE', '/racks/agent/history'],
      ['GET', '/grants'],
      ['GET', '/review'],
    ] as const;
    for (const [method, path, body] of tried) {
      const refused = await send(method, path, { ...(body ? { body } : {}), headers: peer });
      expect([path, refused.status, refused.body]).toMatchObject([
        path,
        403,
        { error: { code: 'owner_only' } },
      ]);
    }
    expect((await send('GET', '/racks/agent', { headers: peer })).status).toBe(200);
    expect(await recorder.rack('agent')).toMatchObject({ armed: false, changed_by: null });
    expect((await recorder.review({ limit: 10 })).entries).toEqual([]);
  });
});

describe('racks', () => {
  it('are disarmed at first, with finite limits', async () => {
    const { send } = serving((await shared).recorder);
    const { data, warnings } = racksAnswer.parse((await send('GET', '/racks')).body);
    expect(data.map(({ id }) => id).sort()).toEqual([
      'agent',
      'completions',
      'external',
      'gateway',
      'workflows',
    ]);
    expect(data.every(({ armed, events }) => !armed && events === 0)).toBe(true);
    expect(data[0]?.policy).toMatchObject({ content: 'metadata', redact: ['@credentials'] });
    expect(warnings).toEqual([]);
  });

  it('can be armed and given a policy; the response is the current rack', async () => {
    const { send } = serving((await openRecorder('put')).recorder);
    const first = await send('PUT', '/racks/agent', {
      body: { armed: true, policy: { retention: { days: 2 } } },
    });
    const rack = rackAnswer.parse(first.body).data;
    expect(rack).toMatchObject({ id: 'agent', armed: true, changed_by: 'bearer' });
    expect(rack.policy.retention).toEqual({ days: 2, bytes: 64 * 1024 * 1024, events: 100_000 });
    const second = await send('PUT', '/racks/agent', { body: { policy: { content: 'full', redact: [] } } });
    const { data, warnings } = rackAnswer.parse(second.body);
    expect(data).toMatchObject({
      armed: true,
      policy: { content: 'full', redact: [], retention: { days: 2 } },
    });
    expect(warnings).toEqual([expect.stringContaining("'@credentials'")]);
    expect(rackAnswer.parse((await send('GET', '/racks/agent')).body).data).toEqual(data);
    expect(
      rackAnswer.parse((await send('PUT', '/racks/agent', { body: { armed: false } })).body).warnings,
    ).toEqual([]);
  });

  it('refuse an invalid change with all violations', async () => {
    const { send } = serving((await shared).recorder);
    const shape = await send('PUT', '/racks/agent', {
      body: {
        armd: true,
        armed: 1,
        policy: { content: 'everything', retention: { days: 1.5, hours: 1 }, redact: ['ok', 7] },
      },
    });
    expect(shape.status).toBe(400);
    expect(violationsOf(shape.body)?.sort()).toEqual([
      "armd: unknown member 'armd' (did you mean 'armed'?); there are: armed, policy",
      'armed: expected true or false',
      "policy.content: expected 'none', 'metadata' or 'full'",
      'policy.redact.1: expected a text',
      'policy.retention.days: expected a whole number',
      "policy.retention.hours: unknown member 'hours'; there are: days, bytes, events",
    ]);
    const bounds = await send('PUT', '/racks/agent', {
      body: { policy: { retention: { days: 0, events: -1 }, redact: ['fine', '(', '@credential'] } },
    });
    expect(bounds.status).toBe(400);
    expect(recorderErrorSchema.parse(bounds.body).error.violations?.map(({ path }) => path)).toEqual([
      'policy.retention.days',
      'policy.retention.events',
      'policy.redact.1',
      'policy.redact.2',
    ]);
    expect(recorderErrorSchema.parse(bounds.body).error.message).toMatch(
      /retention\.days.*'@credential'.*@credentials/s,
    );
    for (const body of [{}, [], 'no']) expect((await send('PUT', '/racks/agent', { body })).status).toBe(400);
    expect(rackAnswer.parse((await send('GET', '/racks/agent')).body).data.changed_at).toBeNull();
  });

  it.each([
    ['GET', '/racks/agnt'],
    ['PUT', '/racks/agnt'],
    ['DELETE', '/racks/agnt/history'],
    ['GET', '/grants?rack=agnt'],
    ['GET', '/review?rack=agnt'],
  ])('%s %s names the nearest one', async (method, path) => {
    const { send } = serving((await shared).recorder);
    const { status, body } = await send(method, path, method === 'PUT' ? { body: { armed: true } } : {});
    expect(status).toBe(404);
    expect(recorderErrorSchema.parse(body).error).toMatchObject({
      code: 'unknown_rack',
      message: expect.stringContaining("'agent'") as unknown,
    });
  });

  it('answer a purge with what was deleted and verified', async () => {
    const { recorder } = await openRecorder('purge');
    const { send } = serving(recorder);
    const { token } = await armedRack(recorder);
    await send('POST', '/ingest', {
      token,
      body: { events: [event('a', { content: 'planted' }), event('b')] },
    });
    const before = rackAnswer.parse((await send('GET', '/racks/external')).body).data;
    expect(before).toMatchObject({ events: 2 });
    const { data } = tombstoneAnswer.parse((await send('DELETE', '/racks/external/history')).body);
    expect(data).toMatchObject({
      rack: 'external',
      by: 'bearer',
      events: 2,
      bytes: before.bytes,
      verified: true,
    });
    const after = rackAnswer.parse((await send('GET', '/racks/external')).body).data;
    expect(after).toMatchObject({ events: 0, bytes: 0, oldest: null, armed: true });
  });
});

describe('ingest', () => {
  it('reports how many events were new, duplicates and redacted', async () => {
    const { recorder } = await openRecorder('ingest');
    const { send } = serving(recorder);
    const { token } = await armedRack(recorder);
    const key = `sk-${'a1B2c3D4'.repeat(5)}`;
    const events = [
      event('a', { content: `the key is ${key}`, role: 'user', attributes: { n: 1 } }),
      event('b'),
    ];
    const first = await send('POST', '/ingest', { token, body: { events } });
    expect(first.status).toBe(200);
    const { data } = ingestAnswer.parse(first.body);
    expect(data).toEqual({ rack: 'external', accepted: 2, duplicates: 0, redacted: 1 });
    const again = await send('POST', '/ingest', { token, body: { events: [...events, event('c')] } });
    expect(ingestAnswer.parse(again.body).data).toMatchObject({ accepted: 1, duplicates: 2 });
  });

  it('refuses invalid write tokens, never repeats them, and records the refusal in the review', async () => {
    const { recorder } = await openRecorder('tokens');
    const { send } = serving(recorder);
    const { id, token } = await armedRack(recorder);
    const revoked = await recorder.mintToken({ rack: 'external' }, 'operator');
    await recorder.revokeToken(revoked.id, 'operator');
    const body = { events: [event('a')] };
    for (const wrong of [undefined, '', `${token}x`, 'lathe_write_guess', revoked.token]) {
      const answer = await send('POST', '/ingest', {
        body,
        ...(wrong === undefined ? {} : { token: wrong }),
      });
      expect(answer.status).toBe(401);
      const { noun, error } = recorderErrorSchema.parse(answer.body);
      expect([noun, error.message]).toEqual(['ingest', expect.stringContaining('x-svc-write-token')]);
      if (wrong) expect(JSON.stringify(answer.body)).not.toContain(wrong);
    }
    expect((await send('POST', '/ingest', { headers: { 'content-type': 'text/html' } })).status).toBe(401);
    const { entries } = reviewAnswer.parse((await send('GET', '/review?limit=1000')).body).data;
    expect(entries.some(({ act, by }) => act === 'refused' && by === 'bearer')).toBe(true);
    expect(JSON.stringify(entries)).not.toContain(token.slice(-20));
    expect(entries.some(({ details }) => JSON.stringify(details).includes(id))).toBe(true);
    expect(rackAnswer.parse((await send('GET', '/racks/external')).body).data.events).toBe(0);
  });

  it('answers 409 if the rack is disarmed', async () => {
    const { recorder } = await openRecorder('disarmed');
    const { send } = serving(recorder);
    const { token } = await armedRack(recorder);
    await send('PUT', '/racks/external', { body: { armed: false } });
    const { status, body } = await send('POST', '/ingest', { token, body: { events: [event('a')] } });
    expect([status, recorderErrorSchema.parse(body).error.code]).toEqual([409, 'rack_disarmed']);
  });

  it('reports all violations of the events at once, and stores none of them', async () => {
    const { recorder } = await openRecorder('faults');
    const { send } = serving(recorder);
    const { token } = await armedRack(recorder);
    const events = Array.from({ length: 257 }, (_, index): unknown => event(`e${index}`));
    events[1] = { at: 'yesterday', kind: '', text: 'hm' };
    events[2] = event('x'.repeat(201), { content: 'é'.repeat(32 * 1024 + 1), attributes: ['a'] });
    events[3] = event('y', { attributes: { long: 'z'.repeat(16 * 1024) }, content: 5 });
    events[4] = 'event';
    const { status, body } = await send('POST', '/ingest', { token, body: { events } });
    expect(status).toBe(400);
    expect(violationsOf(body)?.sort()).toEqual([
      'events.1.at: expected a time of RFC 3339, as 2030-01-31T12:00:00Z',
      'events.1.id: is missing',
      'events.1.kind: must not be empty',
      'events.2.attributes: expected an object',
      'events.2.content: at most 65536 bytes of UTF-8; send the rest as further events',
      'events.2.id: at most 200 characters',
      'events.3.attributes: at most 16384 bytes as JSON',
      'events.3.content: expected a text',
      'events.4: expected an event, an object',
      'events: at most 256 events, got 257; send the rest in another request',
    ]);
    for (const wrong of [{}, { events: [] }, { events: {} }])
      expect((await send('POST', '/ingest', { token, body: wrong })).status).toBe(400);
    expect((await recorder.rack('external')).events).toBe(0);
  });

  it('ignores unknown members', async () => {
    const { recorder } = await openRecorder('strangers');
    const { send } = serving(recorder);
    const { token } = await armedRack(recorder);
    const body = { events: [event('a', { text: 'hm', content: 'said' })], rack: 'agent' };
    expect((await send('POST', '/ingest', { token, body })).status).toBe(200);
    expect((await recorder.rack('external')).events).toBe(1);
  });

  it('accepts at most 256 events, content of 64 KiB and a body of 1 MiB', async () => {
    const { recorder } = await openRecorder('limits');
    const { send } = serving(recorder);
    const { token } = await armedRack(recorder);
    const many = Array.from({ length: 256 }, (_, index) => event(`e${index}`));
    many[0] = event('long', { content: 'é'.repeat(32 * 1024) });
    expect((await send('POST', '/ingest', { token, body: { events: many } })).status).toBe(200);
    const padded = (bytes: number) => JSON.stringify({ events: [event('last')] }).padEnd(bytes);
    const large = await send('POST', '/ingest', { token, body: padded(1024 * 1024 + 1) });
    expect([large.status, recorderErrorSchema.parse(large.body).error.code]).toEqual([413, 'body_too_large']);
    expect((await send('POST', '/ingest', { token, body: padded(1024 * 1024) })).status).toBe(200);
    expect((await recorder.rack('external')).events).toBe(257);
  });

  it('stores times in UTC', async () => {
    const { recorder } = await openRecorder('times');
    let stored: unknown;
    const { send } = serving({
      ...fake,
      ingest(...given) {
        stored = given[1][0]?.at;
        return recorder.ingest(...given);
      },
    });
    const { token } = await armedRack(recorder);
    const body = { events: [event('a', { at: '2030-01-31T12:00:00+02:00' })] };
    expect((await send('POST', '/ingest', { token, body })).status).toBe(200);
    expect(stored).toBe('2030-01-31T10:00:00.000Z');
  });
});

/** Does nothing by itself. */
const fake = Object.fromEntries(
  ['racks', 'rack', 'change', 'grants', 'review', 'purge', 'ingest'].map((name) => [
    name,
    () => Promise.reject(new Error('not of this test')),
  ]),
) as unknown as RecorderService;

describe('every answer', () => {
  const kinds: readonly [RecorderErrorKind, number, string | null][] = [
    ['invalid', 400, null],
    ['unauthorized', 401, null],
    ['forbidden', 403, null],
    ['not_found', 404, null],
    ['conflict', 409, null],
    ['too_many', 429, '1'],
    ['unavailable', 503, '5'],
  ];
  it.each(kinds)('is the one envelope, also where the recorder says %s', async (kind, status, retry) => {
    const { send } = serving({
      ...fake,
      grants: () => Promise.reject(new RecorderError(kind, 'some_code', 'No.')),
    });
    const answer = await send('GET', '/grants');
    expect([answer.status, answer.headers.get('retry-after')]).toEqual([status, retry]);
    expect(recorderErrorSchema.parse(answer.body)).toMatchObject({
      contract: 1,
      noun: 'grant',
      data: null,
      warnings: [],
      error: { code: 'some_code', message: 'No.' },
    });
  });

  it('is used for unknown routes and for failures of the host, too', async () => {
    const { send, faults } = serving(fake);
    expect(recorderErrorSchema.parse((await send('GET', '/transcript')).body)).toMatchObject({
      noun: 'rack',
    });
    expect(recorderErrorSchema.parse((await send('DELETE', '/review')).body)).toMatchObject({
      noun: 'review',
      error: { code: 'method_not_allowed' },
    });
    const failed = await send('GET', '/racks');
    expect([failed.status, recorderErrorSchema.parse(failed.body).error.code]).toEqual([
      500,
      'internal_error',
    ]);
    expect(JSON.stringify(failed.body)).not.toContain('not of this test');
    expect(faults).toHaveLength(1);
    expect((await send('PUT', '/racks/agent', { body: '{' })).body).toMatchObject({
      noun: 'rack',
      data: null,
    });
  });

  it('lists grants and tokens without secrets, and the review by pages', async () => {
    const { recorder } = await openRecorder('lists');
    const { send } = serving(recorder);
    const { token, id, grant } = await armedRack(recorder, 'agent');
    const { body } = await send('GET', '/grants?rack=agent');
    const { data } = grantsAnswer.parse(body);
    expect([data.grants.map((one) => one.id), data.tokens.map((one) => one.id)]).toEqual([[grant], [id]]);
    expect(JSON.stringify(body)).not.toContain(token);
    expect(grantsAnswer.parse((await send('GET', '/grants?rack=gateway')).body).data).toEqual({
      grants: [],
      tokens: [],
    });
    const page = async (query: string) =>
      reviewAnswer.parse((await send('GET', `/review${query}`)).body).data;
    const all = await page('');
    expect(all.entries.map(({ act }) => act)).toEqual(['policy', 'arm', 'grant', 'token']);
    const first = await page('?limit=3');
    expect(first.entries).toEqual(all.entries.slice(0, 3));
    expect((await page(`?after=${first.next}&limit=3`)).entries).toEqual(all.entries.slice(3));
    for (const query of ['?limit=0', '?limit=1001', '?after=-1', '?after=x'])
      expect((await send('GET', `/review${query}`)).status).toBe(400);
  });

  it('is described in the OpenAPI document, with the bearer', () => {
    const document = openapiDocument([createRecorderPlane(fake)], '1') as {
      paths: Record<string, Record<string, { security?: unknown; responses: Record<string, unknown> }>>;
    };
    expect(
      Object.entries(document.paths).map(([path, operations]) => [path, Object.keys(operations)]),
    ).toEqual([
      ['/recorder/v1/racks', ['get']],
      ['/recorder/v1/racks/{id}', ['get', 'put']],
      ['/recorder/v1/racks/{id}/history', ['delete']],
      ['/recorder/v1/grants', ['get']],
      ['/recorder/v1/review', ['get']],
      ['/recorder/v1/ingest', ['post']],
    ]);
    for (const operations of Object.values(document.paths))
      for (const operation of Object.values(operations)) expect(operation.security).toEqual([{ bearer: [] }]);
    expect(Object.keys(document.paths['/recorder/v1/ingest']?.['post']?.responses ?? {})).toEqual(
      expect.arrayContaining(['200', '400', '401', '409', '413', '429']),
    );
  });
});
