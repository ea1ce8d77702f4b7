import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Grant, WriteToken } from '../../src/recorder/types.ts';
import { refusal } from '../support/contract-host.ts';
import { event, recorderCommand, startWatchedHost, type WatchedHost } from '../support/watched-host.ts';

// Grants belong to a peer, and not to its name; a new one shows nothing that was recorded before it.

type Headers = Record<string, string>;
const full = { armed: true, policy: { content: 'full' } };
let at: WatchedHost;
beforeAll(async () => {
  at = await startWatchedHost({});
  await at.putRack('external', full);
});
afterAll(() => at?.end());

const command = <Value>(words: string) => recorderCommand<Value>(at.dataDir, words);
const grant = (to: string, more = '') =>
  command<Grant>(`grant --rack external --verbs read,write --expires 1d --to ${to}${more}`);
/** Ids of the events that somebody may read, oldest first, and what the answer says was left out. */
const read = async (headers: Headers) => {
  const { status, json } = await at.query(
    { surface: 'transcript', select: ['event_id'], order_by: [{ column: 'seq' }] },
    headers,
  );
  expect(status).toBe(200);
  return { ids: json.rows.map(([id]) => id), left: json.redactions.map(({ what }) => what), json };
};
const send = async (token: string, headers: Headers, ...ids: string[]) =>
  refusal(
    await at.send('POST', '/recorder/v1/ingest', {
      body: { events: ids.map((id) => event(id, { content: id })) },
      headers: { 'x-svc-write-token': token, ...headers },
    }),
  );

describe('grants of a peer', () => {
  let ann: Awaited<ReturnType<WatchedHost['peer']>>;
  let token = '';

  it('show what is recorded from then on, and before it only where they say so', async () => {
    ann = await at.peer('ann');
    const first = await grant('peer:ann');
    expect(first).toMatchObject({ to: 'peer:ann', includes_past: false });
    ({ token } = await command<WriteToken & { token: string }>('token --rack external --to peer:ann'));
    expect(await send(token, ann.headers, 'one', 'two')).toEqual([200, undefined]);
    expect((await read(ann.headers)).ids).toEqual(['one', 'two']);

    const bob = await at.peer('bob');
    await grant('peer:bob');
    const before = await read(bob.headers);
    expect(before.ids).toEqual([]);
    expect(before.left).toContain('events recorded in the rack external before the grant');
    // Neither figures nor questions tell of it.
    const counted = await at.query(
      { surface: 'transcript', aggregate: [{ fn: 'count' }, { fn: 'sum', column: 'bytes' }] },
      bob.headers,
    );
    expect(counted.json.rows.flat().filter(Boolean)).toEqual([]);
    expect(before.json.coverage).toMatchObject({ from: null, to: null });
    expect(await send(token, ann.headers, 'three')).toEqual([200, undefined]);
    expect((await read(bob.headers)).ids).toEqual(['three']);
    // The one of two grants that allows more counts.
    const past = await grant('peer:bob', ' --from beginning');
    expect(past).toMatchObject({ includes_past: true });
    expect((await read(bob.headers)).ids).toEqual(['one', 'two', 'three']);
    await command(`revoke ${past.id}`);
    expect((await read(bob.headers)).ids).toEqual(['three']);
    // The bearer's are as everybody's.
    await grant('bearer');
    expect((await read({})).ids).toEqual([]);
  });

  it('show all of a history that was begun after them by a purge', async () => {
    expect((await at.send('DELETE', '/recorder/v1/racks/external/history')).status).toBe(200);
    expect(await send(token, ann.headers, 'four')).toEqual([200, undefined]);
    for (const headers of [ann.headers, {}]) expect((await read(headers)).ids).toEqual(['four']);
  });

  it('end with it, and are nothing to a peer that is minted again under its name', async () => {
    await grant('peer:ann', ' --from beginning');
    await ann.revoke();
    const { grants, tokens } = await command<{ grants: Grant[]; tokens: WriteToken[] }>('grants');
    const ended = [...grants.filter(({ to }) => to === 'peer:ann'), ...tokens];
    expect(ended.length).toBeGreaterThan(2);
    expect(ended.filter(({ revoked_at }) => revoked_at === null)).toEqual([]);
    expect(grants.some(({ to, revoked_at }) => to === 'peer:bob' && revoked_at === null)).toBe(true);
    expect((await at.review()).at(-1)).toMatchObject({ act: 'grant_revoked', by: 'operator' });

    const another = await at.peer('ann');
    const { ids, left } = await read(another.headers);
    expect(ids).toEqual([]);
    expect(left).toContain('the rack external');
    expect((await send(token, another.headers, 'late'))[0]).toBe(401);

    await grant('peer:ann');
    expect((await read(another.headers)).ids).toEqual([]);
    const of = await command<WriteToken & { token: string }>('token --rack external --to peer:ann');
    expect(await send(of.token, another.headers, 'five')).toEqual([200, undefined]);
    expect((await read(another.headers)).ids).toEqual(['five']);
  });
});
