import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ManualClock } from '../support/manual-clock.ts';
import { anEvent, armed, eventsOf, filesWith } from '../support/recorded.ts';
import { recorders } from '../support/recorders.ts';

const open = recorders();
const day = 86_400_000;
const refusal = (kind: string, code: string) =>
  expect.objectContaining({ name: 'RecorderError', kind, code });

describe('a new recorder', () => {
  it('stores nothing: racks are disarmed, no one can read, files are private to their owner', async () => {
    const { recorder, folder } = await open('new');
    const racks = await recorder.racks();
    expect(racks.map(({ id, armed: is, events }) => [id, is, events])).toEqual(
      ['agent', 'completions', 'workflows', 'gateway', 'external'].map((id) => [id, false, 0]),
    );
    recorder.record('agent', [anEvent('a', { content: 'planted' })]);
    expect(recorder.contentOf('agent')).toBeUndefined();
    expect((await recorder.transcripts.readable('bearer')).racks).toEqual([]);
    expect((await recorder.transcripts.readable('bearer')).withheld).toHaveLength(5);
    await recorder.close();
    expect(readdirSync(folder).filter((name) => !name.startsWith('recorder.db'))).toEqual([]);
    expect(statSync(folder).mode & 0o777).toBe(0o700);
  });

  it('creates all of its files private to their owner', async () => {
    const { recorder, folder } = await open('modes');
    const token = await armed(recorder, 'agent');
    await recorder.ingest(token, [anEvent('a')], 'bearer');
    const modes = readdirSync(folder).map((name) => statSync(join(folder, name)).mode & 0o777);
    expect(modes.length).toBeGreaterThanOrEqual(4);
    expect(new Set(modes)).toEqual(new Set([0o600]));
  });

  it('refuses unknown racks', async () => {
    const { recorder } = await open('unknown');
    const unknown = refusal('not_found', 'unknown_rack');
    await expect(recorder.rack('agnet')).rejects.toThrow(/did you mean 'agent'/);
    await expect(recorder.rack('__proto__')).rejects.toEqual(unknown);
    await expect(recorder.change('x', { armed: true }, 'bearer')).rejects.toEqual(unknown);
    await expect(recorder.purge('../agent', 'bearer')).rejects.toEqual(unknown);
    await expect(recorder.review({ rack: 'x', limit: 1 })).rejects.toEqual(unknown);
    await expect(recorder.mintToken({ rack: 'x' }, 'operator')).rejects.toEqual(unknown);
  });
});

describe('recorded content', () => {
  const sampleEvent = anEvent('e1', {
    subject: 't1',
    role: 'user',
    model: 'm',
    content: 'what was said',
    attributes: { tool: 'read', ms: 3, text: 'long '.repeat(100), nested: { a: [1, 'x'] } },
  });

  it('none: only that the event happened', async () => {
    const { recorder, folder } = await open('none');
    const token = await armed(recorder, 'agent', { content: 'none' });
    await recorder.ingest(token, [sampleEvent], 'bearer');
    expect(await eventsOf(recorder, 'agent')).toEqual([
      expect.objectContaining({
        event_id: 'e1',
        kind: 'message',
        subject: 't1',
        at: sampleEvent.at,
        role: null,
        model: null,
        attributes: null,
        content: null,
      }),
    ]);
    expect(filesWith(folder, 'what was said', 'long long', 'user')).toEqual([]);
  });

  it('metadata: attributes and size, no text', async () => {
    const { recorder, folder } = await open('metadata');
    const token = await armed(recorder, 'agent', { content: 'metadata' });
    await recorder.ingest(token, [sampleEvent], 'bearer');
    const [row] = await eventsOf(recorder, 'agent');
    expect(row).toMatchObject({
      role: 'user',
      model: 'm',
      content: null,
      source: expect.stringMatching(/^token:w/),
    });
    expect(JSON.parse(String(row?.['attributes']))).toEqual({
      tool: 'read',
      ms: 3,
      text: '[left out: 500 characters]',
      nested: { a: [1, 'x'] },
      content_bytes: 13,
    });
    expect(filesWith(folder, 'what was said', 'long long')).toEqual([]);
  });

  it('full: the redacted text', async () => {
    const { recorder, folder } = await open('full', { secrets: ['the-host-bearer'] });
    const token = await armed(recorder, 'agent', {
      content: 'full',
      redact: ['@credentials', 'sword[f]ish\\d?'],
    });
    const key = ['sk-proj', 'abcdefghijklmnop0123'].join('-');
    const dirty = anEvent(`id ${key}`, {
      kind: 'swordfish1',
      subject: 'the-host-bearer',
      role: 'swordfish2',
      model: `m ${key}`,
      content: `say ${key} and swordfish and the-host-bearer`,
      attributes: {
        swordfish3: 'x',
        deep: { list: [`a ${key}`, { password: 'hunter22' }] },
        authorization: 'whatever it is',
      },
    });
    const answer = await recorder.ingest(token, [dirty, sampleEvent], 'bearer');
    expect(answer).toEqual({ rack: 'agent', accepted: 2, duplicates: 0, redacted: 12 });
    expect(filesWith(folder, key, 'swordfish', 'the-host-bearer', 'hunter22', 'whatever')).toEqual([]);
    const [row, other] = await eventsOf(recorder, 'agent');
    expect(row).toMatchObject({
      event_id: 'id [redacted]',
      kind: '[redacted]',
      content: 'say [redacted] and [redacted] and [redacted]',
      redacted: 12,
    });
    expect(other).toMatchObject({ content: 'what was said', redacted: 0 });
    // The same id again, although it is not kept as it was.
    expect(await recorder.ingest(token, [dirty], 'bearer')).toMatchObject({
      accepted: 0,
      duplicates: 1,
      redacted: 0,
    });
  });

  it('events of the host itself, in armed racks, as the policy allows', async () => {
    const { recorder, folder, faults } = await open('captured');
    await armed(recorder, 'agent', { content: 'full' });
    await armed(recorder, 'gateway', { content: 'metadata' });
    expect(recorder.contentOf('agent')).toBe('full');
    expect(recorder.contentOf('completions')).toBeUndefined();
    const long = 'ü'.repeat(300 * 1024);
    recorder.record('agent', [
      anEvent('a', { content: 'heard', attributes: { n: 10n ** 20n, fn: undefined, when: Number.NaN } }),
      anEvent('long', { content: long }),
      anEvent('cut', { content: `${'x'.repeat(256 * 1024 - 10)}sk-abcdefghijklmnop012345` }),
      anEvent('nul', { content: 'a\0b\uD800c' }),
    ]);
    recorder.record('gateway', [anEvent('a', { content: 'unheard' })]);
    recorder.record('completions', [anEvent('a', { content: 'unheard' })]);
    // What cannot be sent to the thread is lost, and nothing else.
    recorder.record('agent', [anEvent('f', { attributes: { f: () => 1 } })]);
    await recorder.close();
    const again = (await open('captured')).recorder;
    const rows = await eventsOf(again, 'agent');
    const kept = Object.fromEntries(rows.map((row) => [row['event_id'], String(row['content'])]));
    expect(kept['a']).toBe('heard');
    expect(kept['nul']).toBe('a\uFFFDb\uFFFDc');
    expect(kept['long']).toHaveLength(256 * 1024 - 1024 + 6);
    expect(kept['cut']).not.toContain('sk-');
    expect(rows).toHaveLength(4);
    expect(rows.every((row) => row['source'] === 'host')).toBe(true);
    expect(filesWith(folder, 'unheard', 'sk-abcdef')).toEqual([]);
    expect(faults).toEqual([expect.stringContaining("1 event of the rack 'agent' not stored")]);
    expect(await eventsOf(again, 'gateway')).toHaveLength(1);
  });

  it('nothing after the rack was disarmed', async () => {
    const { recorder } = await open('disarmed');
    const token = await armed(recorder, 'agent');
    recorder.record('agent', [anEvent('before')]);
    const racing = Promise.allSettled(
      Array.from({ length: 20 }, (_, index) => recorder.ingest(token, [anEvent(`r${index}`)], 'bearer')),
    );
    await recorder.change('agent', { armed: false }, 'bearer');
    const { events } = await recorder.rack('agent');
    recorder.record('agent', [anEvent('after')]);
    await expect(recorder.ingest(token, [anEvent('late')], 'bearer')).rejects.toEqual(
      refusal('conflict', 'rack_disarmed'),
    );
    const stored = (await racing).filter(({ status }) => status === 'fulfilled').length;
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect((await recorder.rack('agent')).events).toBe(events);
    expect(events).toBe(stored + 1);
  });
});

describe('ingest', () => {
  it('stores an id once, in one request and in many at once', async () => {
    const { recorder } = await open('ids');
    const token = await armed(recorder, 'agent');
    const other = await armed(recorder, 'external');
    const batch = ['a', 'b', 'a', 'c', 'b'].map((id) => anEvent(id));
    const answers = await Promise.all(
      Array.from({ length: 12 }, () => recorder.ingest(token, batch, 'bearer')),
    );
    expect(answers.reduce((sum, { accepted }) => sum + accepted, 0)).toBe(3);
    expect(answers.reduce((sum, { duplicates }) => sum + duplicates, 0)).toBe(57);
    expect((await recorder.rack('agent')).events).toBe(3);
    expect(await recorder.ingest(other, [anEvent('a')], 'bearer')).toMatchObject({
      rack: 'external',
      accepted: 1,
    });
  });

  it('has times in UTC, whatever clock a sender has', async () => {
    const clock = new ManualClock();
    const { recorder } = await open('times', { now: clock.now });
    const token = await armed(recorder, 'agent', { content: 'full' }, clock.now().getTime());
    await recorder.ingest(
      token,
      [
        anEvent('a', { at: '2031-02-03T04:05:06.7+02:00' }),
        anEvent('b', { at: '0000-01-01T00:00:00+23:00' }),
        anEvent('c', { at: '1999-12-31T23:59:59Z' }),
      ],
      'bearer',
    );
    expect((await eventsOf(recorder, 'agent')).map((row) => row['at'])).toEqual([
      '2031-02-03T02:05:06.700Z',
      clock.now().toISOString(),
      '1999-12-31T23:59:59.000Z',
    ]);
  });

  it('answers 429 if a token is used too often or too many events wait', async () => {
    const { recorder } = await open('pressure');
    const token = await armed(recorder, 'agent');
    const many = await Promise.allSettled(
      Array.from({ length: 500 }, (_, index) => recorder.ingest(token, [anEvent(`m${index}`)], 'bearer')),
    );
    const refused = many.filter(({ status }) => status === 'rejected');
    expect(refused.length).toBeGreaterThan(20);
    expect(refused[0]).toMatchObject({ reason: { kind: 'too_many', code: 'too_many_requests' } });
    expect((await recorder.rack('agent')).events).toBe(500 - refused.length);

    await armed(recorder, 'external', { content: 'metadata' });
    const tokens = await Promise.all(
      [1, 2, 3].map(() => recorder.mintToken({ rack: 'external' }, 'operator')),
    );
    const large = await Promise.allSettled(
      tokens.flatMap((one, index) =>
        Array.from({ length: 16 }, (_, each) =>
          recorder.ingest(
            one.token,
            Array.from({ length: 16 }, (__, part) =>
              anEvent(`${index}.${each}.${part}`, { content: 'x'.repeat(64 * 1024) }),
            ),
            'bearer',
          ),
        ),
      ),
    );
    const busy = large.filter(({ status }) => status === 'rejected');
    expect(busy.length).toBeGreaterThan(0);
    expect(busy.length).toBeLessThan(48);
    expect(busy[0]).toMatchObject({ reason: { kind: 'too_many', code: 'recorder_busy' } });
    expect(await recorder.ingest(tokens[0]?.token ?? '', [anEvent('after')], 'bearer')).toMatchObject({
      accepted: 1,
    });
  });
});

describe('grants and tokens', () => {
  it('a token for a peer uses a grant to that peer, even if other grants last longer', async () => {
    const clock = new ManualClock();
    const { recorder } = await open('peers', { now: clock.now });
    const expiresAt = (days: number) => new Date(clock.now().getTime() + days * day);
    await recorder.change('agent', { armed: true }, 'bearer');
    const grant = (days: number, to: string) =>
      recorder.grant({ rack: 'agent', verbs: ['write'], expiresAt: expiresAt(days), to }, 'operator');
    const mint = (to: string) => recorder.mintToken({ rack: 'agent', to }, 'operator');
    await grant(9, 'bearer');
    await expect(mint('peer:p')).rejects.toThrow(/no active grant to peer:p to write .* --to peer:p/);
    const { id } = await grant(1, 'peer:p');
    const { token, grant: under } = await mint('peer:p');
    expect(under).toBe(id);
    const sent = recorder.ingest(token, [anEvent(crypto.randomUUID())], 'peer:p');
    expect(await sent).toMatchObject({ accepted: 1 });
  });

  it('a token needs an active write grant and expires with it', async () => {
    const clock = new ManualClock();
    const { recorder, folder } = await open('grants', { now: clock.now });
    const at = (days: number) => new Date(clock.now().getTime() + days * day);
    await recorder.change('agent', { armed: true }, 'bearer');
    const none = refusal('conflict', 'no_write_grant');
    await expect(recorder.mintToken({ rack: 'agent' }, 'operator')).rejects.toEqual(none);
    const grant = (verbs: ('read' | 'write')[], days: number, to = 'bearer') =>
      recorder.grant({ rack: 'agent', verbs, expiresAt: at(days), to }, 'operator');
    await grant(['read'], 10);
    await expect(recorder.mintToken({ rack: 'agent' }, 'operator')).rejects.toEqual(none);
    const short = await grant(['write', 'write'], 1);
    expect(short).toMatchObject({ verbs: ['write'], to: 'bearer', revoked_at: null });
    const first = await recorder.mintToken({ rack: 'agent', expiresAt: at(5), label: 'ci' }, 'operator');
    expect(first).toMatchObject({ grant: short.id, label: 'ci', expires_at: short.expires_at });
    const long = await grant(['read', 'write'], 3);
    const second = await recorder.mintToken({ rack: 'agent', expiresAt: at(2) }, 'operator');
    expect(second).toMatchObject({ grant: long.id, expires_at: at(2).toISOString() });
    const third = await recorder.mintToken({ rack: 'agent' }, 'operator');
    expect(filesWith(folder, first.token, second.token, third.token)).toEqual([]);

    const invalid = refusal('unauthorized', 'write_token_invalid');
    const send = (token: string | null, by = 'bearer') =>
      recorder.ingest(token, [anEvent(crypto.randomUUID())], by);
    await expect(send(null)).rejects.toEqual(refusal('unauthorized', 'write_token_missing'));
    await expect(send('x')).rejects.toEqual(invalid);
    await expect(send(first.token.replace('write', 'peer'))).rejects.toEqual(invalid);
    await expect(send(`${first.token.slice(0, -1)}${first.token.endsWith('A') ? 'B' : 'A'}`)).rejects.toEqual(
      invalid,
    );
    expect(await send(first.token, 'operator')).toMatchObject({ accepted: 1 });
    await expect(send(first.token, 'peer:p')).rejects.toEqual(refusal('forbidden', 'write_token_of_another'));

    clock.pass(day);
    await expect(send(first.token)).rejects.toEqual(invalid);
    expect(await send(second.token)).toMatchObject({ accepted: 1 });
    clock.pass(day);
    await expect(send(second.token)).rejects.toEqual(invalid);
    expect(await send(third.token)).toMatchObject({ accepted: 1 });
    await recorder.revokeToken(third.id, 'operator');
    await expect(send(third.token)).rejects.toEqual(invalid);
    const fourth = await recorder.mintToken({ rack: 'agent' }, 'operator');
    const revoked = await recorder.revokeGrant(long.id, 'operator');
    expect(revoked.revoked_at).toBe(clock.now().toISOString());
    expect(await recorder.revokeGrant(long.id, 'operator')).toEqual(revoked);
    await expect(send(fourth.token)).rejects.toEqual(invalid);
    await expect(recorder.mintToken({ rack: 'agent' }, 'operator')).rejects.toEqual(none);

    const { grants, tokens } = await recorder.grants('agent');
    expect(grants.map(({ id }) => id)).toEqual([long.id, short.id, expect.any(String)]);
    expect(tokens.map(({ id }) => id)).toEqual([fourth.id, third.id, second.id, first.id]);
    expect(JSON.stringify(tokens)).not.toMatch(/hash|lathe_write/);
    expect((await recorder.grants('external')).grants).toEqual([]);
    await expect(recorder.revokeGrant('gnone', 'operator')).rejects.toEqual(
      refusal('not_found', 'unknown_grant'),
    );
    await expect(recorder.revokeToken('wnone', 'operator')).rejects.toEqual(
      refusal('not_found', 'unknown_token'),
    );
  });

  it('an invalid grant is refused with all violations', async () => {
    const { recorder } = await open('bad-grants');
    const bad = recorder.grant(
      { rack: 'agent', verbs: ['read', 'own' as 'read'], expiresAt: new Date(0), to: 'everybody' },
      'operator',
    );
    await expect(bad).rejects.toMatchObject({
      kind: 'invalid',
      violations: [{ path: 'verbs[1]' }, { path: 'expires' }, { path: 'to' }],
    });
    const later = new Date(Date.now() + 4000 * day);
    await expect(
      recorder.grant({ rack: 'agent', verbs: [], expiresAt: later, to: 'peer:a b' }, 'operator'),
    ).rejects.toMatchObject({ violations: [{ path: 'verbs' }, { path: 'expires' }, { path: 'to' }] });
    expect((await recorder.grants()).grants).toEqual([]);
  });

  it('a peer minted again under a name does not get the grants of the former peer', async () => {
    const clock = new ManualClock();
    const peers = new Map([['p', { id: 'p1', minted_at: clock.now().toISOString() }]]);
    const findPeer = async (name: string) => peers.get(name);
    const { recorder } = await open('identities', { now: clock.now, findPeer });
    const token = await armed(recorder, 'agent', { content: 'full' }, clock.now().getTime());
    await recorder.ingest(token, [anEvent('a')], 'bearer');
    const expiresAt = new Date(clock.now().getTime() + day);
    const request = {
      rack: 'agent',
      verbs: ['read', 'write'],
      expiresAt,
      to: 'peer:p',
      includesPast: true,
    } as const;
    // An older recorder without peers: its grants belong to the peer that had the name at that time.
    const { recorder: before } = await open('identities', { worker: undefined, now: clock.now });
    await before.grant(request, 'operator');
    await before.close();
    await recorder.grant(request, 'operator');
    const { token: written } = await recorder.mintToken({ rack: 'agent', to: 'peer:p' }, 'operator');
    const racksOf = async (by: string) =>
      (await recorder.transcripts.readable(by)).racks.map(({ rack }) => rack);
    expect(await racksOf('peer:p')).toEqual(['agent']);
    expect(await recorder.ingest(written, [anEvent('b')], 'peer:p')).toMatchObject({ accepted: 1 });

    clock.pass(1000);
    // This recorder got no notice that the first one was revoked, as when hosts share a database.
    peers.set('p', { id: 'p2', minted_at: clock.now().toISOString() });
    expect(await racksOf('peer:p')).toEqual([]);
    await expect(recorder.ingest(written, [anEvent('c')], 'peer:p')).rejects.toMatchObject({
      kind: 'forbidden',
    });
    await expect(recorder.mintToken({ rack: 'agent', to: 'peer:p' }, 'operator')).rejects.toMatchObject({
      code: 'no_write_grant',
    });
    await recorder.grant({ ...request, includesPast: false }, 'operator');
    expect((await recorder.transcripts.readable('peer:p')).racks).toMatchObject([
      { rack: 'agent', after: 2 },
    ]);
    peers.delete('p');
    expect(await racksOf('peer:p')).toEqual([]);
    await expect(recorder.grant(request, 'operator')).rejects.toMatchObject({
      violations: [{ path: 'to', message: expect.stringContaining('no peer of that name') }],
    });
    expect(await recorder.revokeGrantsTo('peer:p', 'operator')).toHaveLength(3);
    expect(await recorder.revokeGrantsTo('peer:p', 'operator')).toEqual([]);
  });

  it('only the current grantee can read', async () => {
    const clock = new ManualClock();
    const { recorder } = await open('readers', { now: clock.now });
    const soon = new Date(clock.now().getTime() + 1000);
    const token = await armed(recorder, 'agent', { content: 'full' }, clock.now().getTime());
    await recorder.ingest(token, [anEvent('a')], 'bearer');
    await recorder.grant({ rack: 'agent', verbs: ['read'], expiresAt: soon, to: 'peer:p' }, 'operator');
    await recorder.grant({ rack: 'external', verbs: ['read'], expiresAt: soon, to: 'operator' }, 'operator');
    await recorder.grant({ rack: 'gateway', verbs: ['write'], expiresAt: soon, to: 'bearer' }, 'operator');
    const readable = async (by: string) => {
      const { racks, withheld } = await recorder.transcripts.readable(by);
      return [racks.map(({ rack }) => rack), withheld];
    };
    // A rack that was granted and has nothing is neither: there is nothing to read or to withhold.
    expect(await readable('bearer')).toEqual([['agent'], ['completions', 'workflows', 'gateway']]);
    expect(await readable('operator')).toEqual(await readable('bearer'));
    expect(await readable('peer:p')).toEqual([
      ['agent'],
      ['completions', 'workflows', 'gateway', 'external'],
    ]);
    expect((await readable('peer:q'))[0]).toEqual([]);
    expect((await readable('local'))[0]).toEqual([]);
    clock.pass(1000);
    expect((await readable('peer:p'))[0]).toEqual([]);
  });
});

describe('the review', () => {
  it('lists every access, refusal and change, with the values before and after', async () => {
    const { recorder } = await open('review');
    const token = await armed(recorder, 'agent', { content: 'full', retention: { days: 2 } });
    await recorder.change('agent', { policy: { content: 'full' } }, 'bearer');
    await recorder.ingest(token, [anEvent('a', { content: 'secret words' }), anEvent('b')], 'bearer');
    await recorder.transcripts.read('bearer', ['agent'], 2);
    for (let times = 0; times < 5; times++)
      await recorder.ingest('bad', [anEvent('x')], 'peer:p').catch(() => 0);
    await recorder.change('agent', { policy: { retention: { events: 1 } } }, 'bearer');
    const { tokens, grants } = await recorder.grants();
    await recorder.revokeToken(tokens[0]?.id ?? '', 'operator');
    await recorder.revokeGrant(grants[0]?.id ?? '', 'operator');
    await recorder.purge('agent', 'bearer');
    await recorder.change('agent', { armed: false }, 'bearer');
    const { entries, next } = await recorder.review({ limit: 100 });
    expect(next).toBeNull();
    expect(entries.map(({ act, by, rack }) => `${act} ${by} ${rack}`)).toEqual([
      'policy bearer agent',
      'arm bearer agent',
      'grant operator agent',
      'token operator agent',
      'ingest bearer agent',
      'read bearer agent',
      'refused peer:p null',
      'policy bearer agent',
      'expired host agent',
      'token_revoked operator agent',
      'grant_revoked operator agent',
      'purge bearer agent',
      'disarm bearer agent',
      'refused peer:p null',
    ]);
    expect(entries.map(({ seq }) => seq)).toEqual(entries.map((_, index) => index + 1));
    const details = entries.map((entry) => entry.details);
    expect(details[0]).toMatchObject({
      before: { content: 'metadata', retention: { days: 7 } },
      after: { content: 'full', retention: { days: 2 } },
    });
    expect(details[1]).toEqual({ before: { armed: false }, after: { armed: true } });
    expect(details[4]).toEqual({ token: tokens[0]?.id, accepted: 2, duplicates: 0, redacted: 0 });
    expect(details[5]).toMatchObject({ rows: 2 });
    expect(details[6]).toEqual({ act: 'ingest', code: 'write_token_invalid' });
    expect(details[8]).toMatchObject({ events: 1 });
    expect(details[9]).toMatchObject({
      before: { revoked_at: null },
      after: { revoked_at: expect.any(String) },
    });
    expect(details[11]).toMatchObject({ events: 1, id: expect.stringMatching(/^d/) });
    expect(details[13]).toEqual({ act: 'ingest', code: 'write_token_invalid', again: 4 });
    expect(JSON.stringify(entries)).not.toMatch(/secret words|lathe_write/);

    const page = await recorder.review({ limit: 3, after: 2 });
    expect(page.entries.map(({ seq }) => seq)).toEqual([3, 4, 5]);
    expect(page.next).toBe(5);
    expect((await recorder.review({ rack: 'external', limit: 3 })).entries).toEqual([]);
  });
});

describe('two processes', () => {
  it('changes by another process apply to the host’s next request', async () => {
    const { recorder } = await open('beside');
    const beside = (await open('beside', { worker: undefined })).recorder;
    await beside.change('agent', { armed: true, policy: { content: 'full' } }, 'operator');
    const token = await (async () => {
      const expiresAt = new Date(Date.now() + day);
      await beside.grant({ rack: 'agent', verbs: ['read', 'write'], expiresAt, to: 'bearer' }, 'operator');
      return await beside.mintToken({ rack: 'agent' }, 'operator');
    })();
    expect(await recorder.ingest(token.token, [anEvent('a', { content: 'kept' })], 'bearer')).toMatchObject({
      accepted: 1,
    });
    expect((await beside.rack('agent')).events).toBe(1);
    await beside.change('agent', { policy: { content: 'none' } }, 'operator');
    await recorder.ingest(token.token, [anEvent('b', { content: 'not kept' })], 'bearer');
    expect((await eventsOf(recorder, 'agent')).map((row) => row['content'])).toEqual(['kept', null]);
    await beside.change('agent', { armed: false }, 'operator');
    await expect.poll(() => recorder.contentOf('agent')).toBeUndefined();
    await beside.revokeToken(token.id, 'operator');
    await expect(recorder.ingest(token.token, [anEvent('c')], 'bearer')).rejects.toMatchObject({
      code: 'write_token_invalid',
    });
    await expect(beside.purge('agent', 'operator')).rejects.toEqual(
      refusal('unavailable', 'recorder_beside'),
    );
    const acts = (await beside.review({ limit: 50 })).entries.map(({ act }) => act);
    expect(acts).toEqual((await recorder.review({ limit: 50 })).entries.map(({ act }) => act));
    expect(acts).not.toContain('purge');
  });

  it('write concurrently without losing events', async () => {
    const { recorder } = await open('both');
    const beside = (await open('both', { worker: undefined })).recorder;
    const expiresAt = new Date(Date.now() + day);
    const grant = (who: typeof recorder) =>
      who.grant({ rack: 'agent', verbs: ['write'], expiresAt, to: 'bearer' }, 'operator');
    await Promise.all(Array.from({ length: 40 }, (_, index) => grant(index % 2 ? recorder : beside)));
    const { grants } = await recorder.grants();
    const { entries } = await beside.review({ limit: 100 });
    expect(new Set(grants.map(({ id }) => id)).size).toBe(40);
    expect(new Set(entries.map(({ seq }) => seq)).size).toBe(40);
  });
});
