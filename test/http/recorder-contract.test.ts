import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { refusal } from '../support/contract-host.ts';
import { type Door, expectFailClosed, expectWellMannered } from '../support/fail-closed.ts';
import { answered } from '../support/driven-host.ts';
import {
  event,
  letRead,
  recorderCommand,
  startWatchedHost,
  tokenByCommand,
  type WatchedHost,
} from '../support/watched-host.ts';

// Section 4.6 of the interface, on a host of its own process: what its planes say and others send, from being armed to
// being purged. Prompts of tasks lie in the host's own database by design, so that what is planted here is planted in
// completions and in events that are ingested.

const secret = `sk-proj-${'4fJ29aKQx0LmZ81TyBv7'.repeat(2)}`;
/** Matched by a pattern of the policy. */
const codename = 'Project Bluebottle';
/** Split over the pieces of a streamed answer. */
const splitSecret = 'zq-7731-4402';
const planted = 'the heron stands in the ninth reed bed';
const doors: Door[] = [
  ['GET', '/recorder/v1/racks'],
  ['GET', '/recorder/v1/racks/agent'],
  ['PUT', '/recorder/v1/racks/agent', {}],
  ['DELETE', '/recorder/v1/racks/agent/history'],
  ['GET', '/recorder/v1/grants'],
  ['GET', '/recorder/v1/review'],
  ['POST', '/recorder/v1/ingest', { events: [] }],
];

const complete = async (at: WatchedHost, content: string, stream = false) => {
  const response = await fetch(`${at.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'scripted', messages: [{ role: 'user', content }], stream }),
  });
  const text = await response.text();
  expect([response.status, text]).toEqual([200, expect.any(String)]);
  return { id: response.headers.get('x-request-id') ?? '', text };
};

describe('every route', () => {
  let at: WatchedHost;
  beforeAll(async () => {
    at = await startWatchedHost({});
  });
  afterAll(() => at?.end());

  it('opens for the bearer alone, on loopback too, and says what does not apply or is not there', async () => {
    await expectFailClosed(at, doors);
    await expectWellMannered(at, doors, '/recorder');
  });

  it('answers in the one envelope, refusals too, with the noun that it is about', async () => {
    const nouns = { racks: 'rack', grants: 'grant', review: 'review', ingest: 'ingest' };
    for (const [method, path, body] of doors) {
      const noun = nouns[path.split('/')[3] as keyof typeof nouns];
      for (const headers of [at.bearer, {}]) {
        const { status, json } = await at.call(method, path, { body, headers });
        const refused = status >= 400;
        const { as_of: time, ...envelope } = json as { as_of: string };
        expect([method, path, status, envelope]).toEqual([
          method,
          path,
          status,
          {
            contract: 1,
            noun,
            data: refused ? null : expect.anything(),
            warnings: expect.any(Array),
            ...(refused ? { error: expect.objectContaining({ code: expect.any(String) }) } : {}),
          },
        ]);
        expect(Math.abs(Date.now() - Date.parse(time))).toBeLessThan(60_000);
      }
    }
    const nothing = await at.send('GET', '/recorder/v1/grnts');
    expect(nothing.json).toMatchObject({ noun: 'rack', error: { code: 'not_found' } });
  });

  it('has the statuses that it is documented with', async () => {
    const statusOf = async (method: string, path: string, body?: unknown, headers = {}) =>
      refusal(await at.send(method, `/recorder/v1${path}`, { body, headers }));
    expect(await statusOf('GET', '/racks')).toEqual([200, undefined]);
    expect(await statusOf('GET', '/racks/nobody')).toEqual([404, 'unknown_rack']);
    expect(await statusOf('PUT', '/racks/nobody', { armed: true })).toEqual([404, 'unknown_rack']);
    expect(await statusOf('DELETE', '/racks/nobody/history')).toEqual([404, 'unknown_rack']);
    expect((await statusOf('PUT', '/racks/agent', { armd: true }))[0]).toBe(400);
    expect((await statusOf('PUT', '/racks/agent', { policy: { redact: ['('] } }))[0]).toBe(400);
    expect((await statusOf('PUT', '/racks/agent', 'armed'))[0]).toBe(415);
    expect(await statusOf('GET', '/grants?rack=nobody')).toEqual([404, 'unknown_rack']);
    expect((await statusOf('GET', '/review?limit=0'))[0]).toBe(400);
    expect(await statusOf('GET', '/review?limit=1&after=1')).toEqual([200, undefined]);
    expect((await statusOf('POST', '/ingest', { events: [event('a')] }))[0]).toBe(401);
    const wrong = { 'x-svc-write-token': 'lathe_write_wrong' };
    expect((await statusOf('POST', '/ingest', { events: [event('a')] }, wrong))[0]).toBe(401);
    expect(await statusOf('DELETE', '/racks/agent/history')).toEqual([200, undefined]);
  });

  it('is in the OpenAPI document, with the bearer', async () => {
    const { paths } = (await (await fetch(`${at.url}/openapi.json`)).json()) as {
      paths: Record<string, Record<string, { security: unknown }>>;
    };
    const documented = Object.entries(paths)
      .filter(([path]) => path.startsWith('/recorder'))
      .flatMap(([path, methods]) =>
        Object.entries(methods).map(([method, { security }]) => {
          expect(security).toEqual([{ bearer: [] }]);
          return `${method.toUpperCase()} ${path.replace('{id}', 'agent')}`;
        }),
      );
    expect(documented.toSorted()).toEqual(doors.map(([method, path]) => `${method} ${path}`).toSorted());
  });
});

describe('a rack, from being armed to being purged', () => {
  let at: WatchedHost;
  let token = '';
  beforeAll(async () => {
    at = await startWatchedHost({ script: { says: ['Say ', 'zq-77', '31-', '4402', ' to nobody.'] } });
  });
  afterAll(() => at?.end());

  it('keeps nothing while it is disarmed', async () => {
    await complete(at, `Before: ${planted}`);
    await letRead(at.dataDir, 'completions');
    expect(await at.send('GET', '/recorder/v1/racks/completions')).toMatchObject({
      json: { data: { armed: false, events: 0 } },
    });
    expect(at.filesWith(planted)).toEqual([]);
  });

  it('stores content, but nothing that its policy or the credentials of the host match', async () => {
    await at.putRack('completions', {
      armed: true,
      policy: { content: 'full', redact: ['@credentials', 'Project \\w+', 'zq-\\d{4}-\\d{4}'] },
    });
    const own = [at.bearer.authorization.slice('Bearer '.length), at.operator['x-svc-operator']];
    const prompt = `${planted}; the key is ${secret}, of ${codename}; ${own.join(' and ')}`;
    const whole = await complete(at, prompt);
    const streamed = await complete(at, prompt, true);
    await at.wait('both are kept', async () => (await keptOf(whole.id)) && (await keptOf(streamed.id)));
    // The files of the host's own credentials have them, of course.
    const secrets = [secret, codename, splitSecret, ...own];
    const found = at.filesWith(...secrets).filter((name) => !/^(?:bearer|operator)\.token: /.test(name));
    expect(found).toEqual([]);
    for (const { id } of [whole, streamed]) {
      const rows = (await at.transcript('completions')).filter(({ subject }) => subject === id);
      expect(rows.map(({ kind, role, content }) => [kind, role, content])).toEqual([
        ['message', 'user', `${planted}; the key is [redacted], of [redacted]; [redacted] and [redacted]`],
        ['message', 'assistant', 'Say [redacted] to nobody.'],
        ['completion', null, null],
      ]);
    }
  });
  const keptOf = async (id: string) =>
    (await at.transcript('completions')).filter(({ subject }) => subject === id).length === 3;

  it('takes the same out of what others send, whatever part of it has it', async () => {
    ({ token } = await tokenByCommand(at.dataDir, 'completions'));
    const sent = await at.ingest(token, [
      event(`i1 ${secret}`, { content: `${planted}, ${secret}` }),
      event('i2', { kind: codename, role: secret, subject: codename, model: splitSecret }),
      event('i3', { attributes: { [secret]: 1, deep: { of: [codename, { [splitSecret]: secret }] } } }),
    ]);
    expect(sent.json).toMatchObject({ noun: 'ingest', data: { accepted: 3, duplicates: 0 } });
    expect(at.filesWith(secret, codename, splitSecret)).toEqual([]);
    expect(at.filesWith(planted)).not.toEqual([]);
  });

  it('is read by those alone to whom somebody granted it', async () => {
    const [ann, bob] = [await at.peer('ann'), await at.peer('bob')];
    await letRead(at.dataDir, 'completions', 'peer:ann', { includesPast: true });
    const read = async (headers: Record<string, string>) => {
      const { status, json } = await at.query(
        { surface: 'transcript', select: ['rack', 'content'] },
        headers,
      );
      expect(status).toBe(200);
      return {
        has: JSON.stringify(json.rows).includes(planted),
        withheld: json.redactions.some(({ what }) => what.includes('completions')),
      };
    };
    expect(await read(ann.headers)).toMatchObject({ has: true });
    expect(await read(bob.headers)).toEqual({ has: false, withheld: true });
    // No other surface and no other route has it.
    const elsewhere = await Promise.all([
      at.query({ surface: 'completions' }, bob.headers),
      at.send('GET', '/recorder/v1/racks/completions'),
      at.send('GET', '/recorder/v1/review?limit=1000'),
      at.send('GET', '/recorder/v1/grants'),
    ]);
    for (const { text } of elsewhere) expect(text).not.toContain(planted);
    const { grants } = await recorderCommand<{ grants: { id: string; to: string }[] }>(at.dataDir, 'grants');
    for (const { id } of grants.filter(({ to }) => to === 'peer:ann'))
      await recorderCommand(at.dataDir, `revoke ${id}`);
    expect(await read(ann.headers)).toEqual({ has: false, withheld: true });
  });

  it('has a review of who did all that', async () => {
    const entries = await at.review();
    const lines = entries.map(({ act, by, rack }) => `${by} ${act} ${rack}`);
    for (const line of [
      'bearer arm completions',
      'bearer policy completions',
      'operator grant completions',
      'operator token completions',
      'bearer ingest completions',
      'bearer read completions',
      'peer:ann read completions',
      'operator grant_revoked completions',
    ])
      expect(lines).toContain(line);
    expect(lines).not.toContain('peer:bob read completions');
    expect(entries.find(({ act }) => act === 'policy')?.details).toMatchObject({
      before: { content: 'metadata' },
      after: { content: 'full' },
    });
    for (const text of [planted, secret, token]) expect(JSON.stringify(entries)).not.toContain(text);
  });

  it('is gone from every file when a purge is answered, and is stored again after it', async () => {
    const { events } = (await at.send('GET', '/recorder/v1/racks/completions')).json['data'] as {
      events: number;
    };
    const purged = await at.send('DELETE', '/recorder/v1/racks/completions/history');
    expect(at.filesWith(planted)).toEqual([]);
    expect(purged.json).toMatchObject({
      noun: 'rack',
      data: { rack: 'completions', by: 'bearer', events, verified: true },
    });
    expect(await at.transcript('completions')).toEqual([]);
    expect((await at.review()).at(-2)).toMatchObject({ act: 'purge', by: 'bearer', rack: 'completions' });
    const { id } = await complete(at, 'After it.');
    await at.wait('it is kept', () => keptOf(id));
    expect(at.filesWith(planted)).toEqual([]);
  });

  it('leaves nothing behind when the host stops', async () => {
    at.host.kill('SIGTERM');
    expect(await at.host.exit).toEqual({ code: 0, signal: null });
    expect(at.filesWith(planted, secret, codename, splitSecret)).toEqual([]);
    const logged = at.host.output.stdout + at.host.output.stderr;
    for (const text of [planted, secret, codename, splitSecret, token]) expect(logged).not.toContain(text);
    expect(at.host.output.stderr).not.toMatch(/not stored|fault|error/i);
  });
});

it('metadata alone, or nothing but that it happened', async () => {
  const at = await startWatchedHost({ script: { says: answered } });
  try {
    await letRead(at.dataDir, 'completions');
    for (const content of ['metadata', 'none']) {
      await at.putRack('completions', { armed: true, policy: { content } });
      const { id } = await complete(at, planted);
      await at.wait('it is kept', async () =>
        (await at.transcript('completions')).some(({ subject }) => subject === id),
      );
      const rows = (await at.transcript('completions')).filter(({ subject }) => subject === id);
      const work = rows.find(({ kind }) => kind === 'completion');
      expect([content, rows.map((row) => row['content'])]).toEqual([content, rows.map(() => null)]);
      expect([content, work?.['attributes'] !== null]).toEqual([content, content === 'metadata']);
    }
    expect(at.filesWith(planted, answered.join(''))).toEqual([]);
  } finally {
    await at.end();
  }
});
