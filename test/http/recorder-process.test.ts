import { readdirSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ObserveEnvelope } from '../../src/observe/types.ts';
import { refusal } from '../support/contract-host.ts';
import { administer, describeDatabases } from '../support/databases.ts';
import { freshDataDir, longLimits } from '../support/host.ts';
import { killCount, pause, randomFrom, report } from '../support/kills/process.ts';
import {
  event,
  recorderCommand,
  startWatchedHost,
  tokenByCommand,
  tokenFor,
  type WatchedHost,
} from '../support/watched-host.ts';
import { rounds } from '../support/tier.ts';

// Ingest at hosts that are processes of their own, which are killed, stopped and put under pressure.

interface Ingested {
  readonly data: { readonly accepted: number; readonly duplicates: number };
}
const armed = { armed: true, policy: { content: 'full' } };

/** Every id of a rack, page by page as anybody would read them. */
async function idsIn(at: WatchedHost, rack: string): Promise<string[]> {
  const ids: string[] = [];
  let cursor: string | undefined;
  do {
    const { status, json } = await at.query({
      surface: 'transcript',
      select: ['event_id'],
      where: [{ column: 'rack', op: 'eq', value: rack }],
      limit: 1000,
      ...(cursor === undefined ? {} : { cursor }),
    });
    expect(status).toBe(200);
    ids.push(...json.rows.map(([id]) => String(id)));
    cursor = json.next;
  } while (cursor !== undefined);
  expect(new Set(ids).size).toBe(ids.length);
  return ids;
}

/** Sends events until the host is gone or says that it ends; what it acknowledged. */
async function sendUntilGone(at: WatchedHost, token: string, name: string, acknowledged: string[]) {
  for (let next = 0; ; next++) {
    const ids = Array.from({ length: 1 + (next % 5) }, (_, index) => `${name}.${next}.${index}`);
    const events = ids.map((id) => event(id, { content: `${id} ${'x'.repeat(next % 3000)}` }));
    try {
      const { status, json } = await at.ingest(token, events);
      if (status === 200) {
        expect((json as unknown as Ingested).data).toMatchObject({ accepted: ids.length, duplicates: 0 });
        acknowledged.push(...ids);
      } else if (status === 429) await pause(20);
      else if (status === 503) return;
      else expect([status, json]).toEqual([200, expect.anything()]);
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
      return;
    }
  }
}

describe('ingest', () => {
  let at: WatchedHost;
  let token = '';
  beforeAll(async () => {
    at = await startWatchedHost({});
    await at.putRack('external', armed);
    ({ token } = await tokenByCommand(at.dataDir, 'external'));
  });
  afterAll(() => at?.end());
  const ingest = async (events: unknown) => {
    const { status, headers, json } = await at.ingest(token, events);
    return { status, headers, ...(json as unknown as Ingested).data };
  };
  const rack = async () =>
    (await at.send('GET', '/recorder/v1/racks/external')).json['data'] as { events: number; bytes: number };

  it('stores an event once, however often and from however many it comes at once', async () => {
    const events = Array.from({ length: 50 }, (_, n) => event(`once.${n}`, { content: `text ${n}` }));
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, n) => ingest(n % 2 === 0 ? events : events.toReversed())),
    );
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200));
    const sum = (name: 'accepted' | 'duplicates') => answers.reduce((all, one) => all + one[name], 0);
    expect([sum('accepted'), sum('duplicates')]).toEqual([50, 950]);
    expect((await idsIn(at, 'external')).toSorted()).toEqual(events.map(({ id }) => id).toSorted());
    expect((await rack()).events).toBe(50);
  });

  it('answers 429 with Retry-After where more comes than may, and keeps all that it did acknowledge', async () => {
    await pause(1000);
    const answers = await Promise.all(
      Array.from({ length: 600 }, async (_, n) => ({ n, ...(await at.ingest(token, [event(`much.${n}`)])) })),
    );
    const refused = answers.filter(({ status }) => status !== 200);
    expect(refused.length).toBeGreaterThan(0);
    for (const one of refused) {
      expect(refusal(one)).toEqual([429, 'too_many_requests']);
      expect(one.headers.get('retry-after')).toBe('1');
    }
    const stored = (await idsIn(at, 'external')).filter((id) => id.startsWith('much.'));
    const taken = answers.filter(({ status }) => status === 200).map(({ n }) => `much.${n}`);
    expect(stored.toSorted()).toEqual(taken.toSorted());
    // Retry after the time that it stated.
    await pause(1000);
    for (const { n } of refused.slice(0, 20))
      expect(await ingest([event(`much.${n}`)])).toMatchObject({ status: 200, accepted: 1 });
  });

  it('refuses what is too much for one request, and stores none of it', async () => {
    await pause(1000);
    const before = (await rack()).events;
    const many = Array.from({ length: 257 }, (_, n) => event(`many.${n}`));
    expect((await at.ingest(token, many)).status).toBe(400);
    expect((await at.ingest(token, [event('long', { content: 'x'.repeat(65_537) })])).status).toBe(400);
    const whole = Array.from({ length: 20 }, (_, n) => event(`w.${n}`, { content: 'x'.repeat(60_000) }));
    expect((await at.ingest(token, whole)).status).toBe(413);
    expect((await at.ingest(token, [event('good'), { id: 'bad' }])).status).toBe(400);
    expect((await rack()).events).toBe(before);
  });

  it('a client that disconnects in the middle has sent nothing', async () => {
    const before = (await rack()).events;
    const body = JSON.stringify({ events: [event('left')] });
    await new Promise<void>((resolve) => {
      const sent = request(`${at.url}/recorder/v1/ingest`, {
        method: 'POST',
        headers: {
          ...at.bearer,
          'x-svc-write-token': token,
          'content-type': 'application/json',
          'content-length': String(body.length),
        },
      });
      sent.on('error', () => resolve());
      sent.write(body.slice(0, -10), () => setTimeout(() => sent.destroy(new Error('left')), 50));
    });
    expect((await rack()).events).toBe(before);
  });

  it('keeps to bounds that got tighter when the change is answered', async () => {
    await at.send('DELETE', '/recorder/v1/racks/external/history');
    const events = Array.from({ length: 100 }, (_, n) => event(`kept.${n}`, { content: `the ${n}th sedge` }));
    expect(await ingest(events)).toMatchObject({ status: 200, accepted: 100 });
    const retention = async (bounds: object) =>
      await at.putRack('external', { policy: { retention: bounds } });
    expect(await retention({ events: 40 })).toMatchObject({ events: 40 });
    expect((await idsIn(at, 'external')).toSorted()).toEqual(
      events
        .slice(60)
        .map(({ id }) => id)
        .toSorted(),
    );
    expect(at.filesWith('the 59th sedge')).toEqual([]);
    expect(at.filesWith('the 60th sedge')).not.toEqual([]);
    const { bytes } = await rack();
    const half = Math.max(1024, Math.floor(bytes / 2));
    expect((await retention({ bytes: half }))['bytes']).toBeLessThanOrEqual(half);
    // Turned back, as if they had lain there for two days.
    const folder = join(at.dataDir, 'recorder');
    const file = readdirSync(folder).find((name) => /^external.*\.db$/.test(name)) ?? '';
    const db = new DatabaseSync(join(folder, file), { timeout: 60_000 });
    db.exec("update events set received_at = '2001-01-01T00:00:00.000Z'");
    db.close();
    expect(await retention({ days: 1 })).toMatchObject({ events: 0 });
    expect(at.filesWith('sedge')).toEqual([]);
    const expired = (await at.review()).filter(({ act }) => act === 'expired');
    expect(expired.reduce((sum, { details }) => sum + Number(details['events']), 0)).toBe(100);
    expect(expired.every(({ by }) => by === 'host')).toBe(true);
  });

  it('takes a token from those alone to whom its rack was granted', async () => {
    const [ann, bob] = [await at.peer('ann'), await at.peer('bob')];
    await at.putRack('gateway', armed);
    const of = await tokenFor(at.dataDir, 'gateway', 'peer:ann');
    const sent = async (headers: Record<string, string>) =>
      refusal(
        await at.send('POST', '/recorder/v1/ingest', {
          body: { events: [event(crypto.randomUUID())] },
          headers: { 'x-svc-write-token': of.token, ...headers },
        }),
      );
    expect(await sent(ann.headers)).toEqual([200, undefined]);
    for (const other of [at.bearer, bob.headers]) expect((await sent(other))[0]).toBe(403);
    await ann.revoke();
    expect(await sent(ann.headers)).toEqual([401, 'unauthorized']);
  });

  it('ends with its token and its grant', async () => {
    const { token: one, id } = await tokenFor(at.dataDir, 'external');
    const { token: two, grant } = await tokenFor(at.dataDir, 'external');
    const ids = { tokens: [{ id, revoked_at: null }, { grant }], grants: [{ id: grant }] };
    const listed = await at.send('GET', '/recorder/v1/grants?rack=external');
    for (const text of [token, one, two]) expect(listed.text).not.toContain(text);
    expect(listed.json['data']).toEqual({
      tokens: expect.arrayContaining(ids.tokens.map((part) => expect.objectContaining(part))),
      grants: expect.arrayContaining(ids.grants.map((part) => expect.objectContaining(part))),
    });
    expect(at.filesWith(token, one, two)).toEqual([]);
    const sent = async (of: string) => (await at.ingest(of, [event(crypto.randomUUID())])).status;
    expect([await sent(one), await sent(two)]).toEqual([200, 200]);
    await at.putRack('external', { armed: false });
    expect(refusal(await at.ingest(one, [event('late')]))).toEqual([409, 'rack_disarmed']);
    await at.putRack('external', { armed: true });
    await recorderCommand(at.dataDir, `revoke ${id}`);
    expect([await sent(one), await sent(two)]).toEqual([401, 200]);
    await recorderCommand(at.dataDir, `revoke ${grant}`);
    // Both stand under the grant that lasts longest.
    expect([await sent(two), await sent(token)]).toEqual([401, 401]);
  });
});

const kills = killCount(rounds(5, 2));
it(`a host that is killed while it takes events, ${kills} times, has all that it acknowledged`, async () => {
  const dataDir = freshDataDir();
  const seed = Date.now() % 1_000_000;
  const random = randomFrom(seed);
  const acknowledged: string[] = [];
  const lost = async (at: WatchedHost) => {
    const stored = new Set(await idsIn(at, 'agent'));
    return acknowledged.filter((id) => !stored.has(id));
  };
  let tokens: string[] = [];
  for (let round = 0; round < kills; round++) {
    const at = await startWatchedHost({ dataDir });
    if (round === 0) {
      await at.putRack('agent', armed);
      tokens = [(await tokenFor(dataDir, 'agent')).token, (await tokenFor(dataDir, 'agent')).token];
    }
    expect([seed, round, await lost(at)]).toEqual([seed, round, []]);
    const before = acknowledged.length;
    const senders = [0, 1, 2].map((n) =>
      sendUntilGone(at, tokens[n % 2] ?? '', `${round}.${n}`, acknowledged),
    );
    while (acknowledged.length === before) await pause(1);
    await pause(random(250));
    at.host.kill('SIGKILL');
    await Promise.all(senders);
    expect(at.host.output.stderr).toBe('');
    await at.end();
  }
  const at = await startWatchedHost({ dataDir });
  try {
    expect([seed, await lost(at)]).toEqual([seed, []]);
    const kept = await at.putRack('agent', { policy: { retention: { events: 5 } } });
    expect(kept).toMatchObject({ events: 5, armed: true });
    const purged = await at.send('DELETE', '/recorder/v1/racks/agent/history');
    expect(purged.json).toMatchObject({ data: { events: 5, verified: true } });
    expect(at.filesWith(...acknowledged.slice(-200).map((id) => `${id} x`))).toEqual([]);
    expect((await at.ingest(tokens[0] ?? '', [event('after all')])).status).toBe(200);
    report({ kills, acknowledged: acknowledged.length, seed });
  } finally {
    await at.end();
  }
});

describeDatabases('a host that is stopped while it is asked, sent to and listened to', (url, kind) => {
  it('ends in order, and has all that it acknowledged', async () => {
    const database = await url();
    const dataDir = freshDataDir();
    const options = { dataDir, script: { says: ['All ', 'is ', 'well.'] }, flags: ['--database', database] };
    // It ends by itself, within its limits for an orderly stop: the one after which it exits in any case never comes.
    const at = await startWatchedHost({ ...options, env: longLimits(4500) });
    for (const rack of ['completions', 'external']) await at.putRack(rack, armed);
    const { token } = await tokenFor(dataDir, 'external');
    await tokenFor(dataDir, 'completions');
    const acknowledged: string[] = [];
    const answered: string[] = [];
    const untilGone = async (work: () => Promise<boolean>) => {
      while (await work().catch(() => false));
    };
    const complete = async () => {
      const response = await fetch(`${at.url}/v1/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ model: 'scripted', prompt: `planted in ${kind}` }),
      });
      const text = await response.text();
      if (response.ok && text.includes('well.')) answered.push(response.headers.get('x-request-id') ?? '');
      return response.ok;
    };
    const query = async () =>
      [200, 503].includes((await at.query({ surface: 'completions', aggregate: [{ fn: 'count' }] })).status);
    const read = async () => (await at.query({ surface: 'transcript' })).status === 200;
    const working = [
      sendUntilGone(at, token, 'a', acknowledged),
      sendUntilGone(at, token, 'b', acknowledged),
      ...[complete, complete, query, query, read].map(untilGone),
    ];
    await at.wait('all are at it', async () => acknowledged.length > 50 && answered.length > 20);
    at.host.kill('SIGTERM');
    expect(await at.host.exit).toEqual({ code: 0, signal: null });
    await Promise.all(working);
    expect(at.host.output.stderr).not.toMatch(/not stored|could not be|error/i);
    await at.end();

    const again = await startWatchedHost(options);
    try {
      const sent = new Set(await idsIn(again, 'external'));
      expect(acknowledged.filter((id) => !sent.has(id))).toEqual([]);
      // Every acknowledged event reached the feed and the recorder before the host closed them.
      const fed = new Set<unknown>();
      for (let cursor: string | undefined, first = true; first || cursor !== undefined; first = false) {
        const page: ObserveEnvelope = (
          await again.query({
            surface: 'completions',
            select: ['id'],
            limit: 1000,
            ...(cursor === undefined ? {} : { cursor }),
          })
        ).json;
        for (const [id] of page.rows) fed.add(id);
        cursor = page.next;
      }
      expect(answered.filter((id) => !fed.has(id))).toEqual([]);
      const captured = (await idsIn(again, 'completions')).join(' ');
      expect(answered.filter((id) => !captured.includes(`completion:${id}:`))).toEqual([]);
      // Racks are files on the host's disk, also with another database.
      const planted = `planted in ${kind}`;
      expect(again.filesWith(planted).length).toBeGreaterThan(0);
      if (kind === 'postgres') expect(await tablesWith(database, planted)).toEqual([]);
      expect((await again.send('DELETE', '/recorder/v1/racks/completions/history')).status).toBe(200);
      expect(again.filesWith(planted)).toEqual([]);
    } finally {
      await again.end();
    }
  });
});

/** Tables of a PostgreSQL database that have a text in a row. */
async function tablesWith(url: string, text: string): Promise<string[]> {
  const database = /^postgres:\/\/\/([^?]+)/.exec(url)?.[1] ?? '';
  const { rows } = await administer(
    "select table_name as name from information_schema.tables where table_schema = 'public'",
    database,
  );
  const having: string[] = [];
  for (const { name } of rows as { name: string }[]) {
    const found = await administer(
      `select 1 from "${name}" as t where strpos(to_jsonb(t)::text, '${text}') > 0 limit 1`,
      database,
    );
    if (found.rows.length > 0) having.push(name);
  }
  return having;
}
