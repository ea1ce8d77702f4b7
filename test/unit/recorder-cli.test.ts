import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterAll, describe, expect, it } from 'vitest';
import { Peers } from '../../src/agent/sessions/peers.ts';
import { Recorder } from '../../src/recorder/recorder.ts';
import type { Grant, Rack, ReviewEntry, WriteToken } from '../../src/recorder/types.ts';
import { Store } from '../../src/store/index.ts';
import { commandLines } from '../support/command-lines.ts';
import { recorderWorker } from '../support/recorders.ts';

const folder = mkdtempSync(join(tmpdir(), 'lathe-cli-recorder-'));
afterAll(() => rmSync(folder, { recursive: true }));
const run = commandLines(folder);
const lathe = (words: string, name = 'data') =>
  run(['recorder', ...words.split(' ')], { LATHE_DATA_DIR: join(folder, name) });
const json = async <T>(words: string, name?: string) => {
  const { stdout, stderr, code } = await lathe(`${words} --json`, name);
  expect([stderr, code]).toEqual(['', 0]);
  return JSON.parse(stdout) as T;
};
const day = 86_400_000;
const grantOf = 'grant --rack agent --verbs read,write --expires 30d';

/** As the host has it. */
const hostOf = (name: string) =>
  Recorder.open({
    folder: join(folder, name, 'recorder'),
    worker: recorderWorker,
    secrets: [],
    onFault: () => undefined,
    onNotice: () => undefined,
  });

/** Mints it, as a host does. */
async function peerIn(name: string, peer: string) {
  const store = await Store.open({ url: `sqlite:${join(folder, name, 'lathe.db')}`, endpointId: 'e0' });
  await new Peers({ store }).mint(peer, 'operator');
  await store.close();
}

describe('the command recorder', () => {
  it('creates, lists and revokes grants and tokens without a running host', async () => {
    const none = await lathe('grants');
    expect(none).toEqual({ stdout: 'no grants: nobody can read or write the racks\n', stderr: '', code: 0 });
    const granted = await lathe(grantOf);
    const [, id = '', until = ''] =
      /^(\w+): bearer may read and write the rack agent until (\S+)\n$/.exec(granted.stdout) ?? [];
    expect(Math.abs(Date.parse(until) - Date.now() - 30 * day)).toBeLessThan(60_000);
    const minted = await lathe('token --rack agent --expires 12h --label ci');
    expect(minted.stdout).toMatch(/^lathe_write_[\w-]{43}\n$/);
    expect(minted.stderr).toMatch(
      /^\w+ may write to the rack agent until \S+; the token is shown only once\n$/,
    );
    const [tokenId = ''] = minted.stderr.split(' ');

    const { stdout } = await lathe('grants');
    expect(stdout.split('\n').map((line) => line.trim().split(/ {2,}/))).toEqual([
      ['GRANT', 'RACK', 'VERBS', 'TO', 'FROM', 'STATE'],
      [id, 'agent', 'read,write', 'bearer', expect.stringMatching(/^20/), `until ${until.slice(0, 10)}`],
      [''],
      ['TOKEN', 'RACK', 'BY GRANT', 'STATE', 'LABEL'],
      [tokenId, 'agent', id, expect.stringMatching(/^until /), 'ci'],
      [''],
    ]);
    expect((await lathe(`revoke ${tokenId}`)).stdout).toBe(`${tokenId} is revoked\n`);
    expect((await json<Grant>(`revoke ${id}`)).revoked_at).not.toBeNull();
    const after = await json<{ grants: Grant[]; tokens: WriteToken[] }>('grants --rack agent');
    expect([...after.grants, ...after.tokens].every((one) => one.revoked_at !== null)).toBe(true);
    expect((await lathe('grants')).stdout.match(/revoked 20/g)).toHaveLength(2);
    expect(await json('grants --rack gateway')).toEqual({ grants: [], tokens: [] });
  });

  it('never stores a token', async () => {
    await lathe(grantOf);
    const { token } = await json<{ token: string }>('token --rack agent');
    const files = readdirSync(join(folder, 'data'), { recursive: true, encoding: 'utf8' })
      .map((name) => join(folder, 'data', name))
      .filter((path) => statSync(path).isFile());
    expect(files.length).toBeGreaterThan(0);
    for (const file of files) expect(readFileSync(file).includes(token.slice(12))).toBe(false);
  });

  it('prints the racks and the review', async () => {
    const racks = await json<Rack[]>('racks');
    expect(racks.map(({ armed }) => armed)).toEqual([false, false, false, false, false]);
    const { stdout } = await lathe('racks');
    expect(stdout.split('\n')[0]).toMatch(/^RACK +STATE +CONTENT +AT MOST +REDACTS +EVENTS +SIZE +NEWEST$/);
    expect(stdout).toMatch(
      /^agent +disarmed +metadata +7 days, 64(\.0)? MiB, 100000 events +@credentials +0 +0 B +-$/m,
    );

    await peerIn('data', 'desk');
    await lathe('grant --rack gateway --verbs read --expires 2h --to peer:desk');
    const entries = await json<ReviewEntry[]>('review');
    expect(entries.at(-1)).toMatchObject({ by: 'operator', act: 'grant', rack: 'gateway' });
    const last = entries.at(-1)?.seq ?? 0;
    expect(await json<ReviewEntry[]>(`review --after ${last - 1}`)).toEqual(entries.slice(-1));
    expect((await json<ReviewEntry[]>('review --rack gateway')).map(({ seq }) => seq)).toEqual([last]);
    const shown = await lathe('review --rack gateway');
    expect(shown.stdout).toMatch(new RegExp(`^${last} +20\\S+ +operator +grant +gateway +{`, 'm'));
    expect((await lathe('review', 'fresh')).stdout).toBe('no entries\n');
  });

  it('includes earlier events in a grant only on request, and says so', async () => {
    const past = await lathe('grant --rack workflows --verbs read --expires 2h --from beginning');
    expect(past.stdout).toMatch(
      /: bearer may read the rack workflows, including events already recorded, until /,
    );
    expect((await lathe('grants --rack workflows')).stdout).toMatch(/ bearer +beginning +until /);
    const { grants } = await json<{ grants: Grant[] }>('grants --rack workflows');
    expect(grants.map(({ includes_past }) => includes_past)).toEqual([true]);
    expect(await json<Grant>('grant --rack workflows --verbs read --expires 2h')).toMatchObject({
      includes_past: false,
    });
  });

  it('grants nothing to an absent peer, and creates no database to look it up', async () => {
    for (const name of ['nobody', 'data']) {
      const answer = await lathe('grant --rack agent --verbs read --expires 1d --to peer:ghost', name);
      expect([answer.code, answer.stdout]).toEqual([2, '']);
      expect(answer.stderr).toContain("--to is 'peer:ghost'; there is no peer of that name");
    }
    expect(readdirSync(join(folder, 'nobody'))).not.toContain('lathe.db');
    expect((await json<{ grants: Grant[] }>('grants', 'nobody')).grants).toEqual([]);
  });

  it('prints all pages of a long review', async () => {
    await lathe('racks', 'long');
    const db = new DatabaseSync(join(folder, 'long', 'recorder', 'recorder.db'));
    const add = db.prepare(
      "insert into review (at, by, act, rack, details) values ('', 'host', 'expired', null, '{}')",
    );
    db.exec('begin');
    for (let entry = 0; entry < 1100; entry++) add.run();
    db.exec('commit');
    db.close();
    expect(await json<ReviewEntry[]>('review', 'long')).toHaveLength(1100);
  });

  it.each([
    ['token --rack workflows', 1, "There is no active grant to write to the rack 'workflows'"],
    ['grant --rack agent --verbs read --expires 2001-01-31', 2, '--expires is in the past'],
    ['revoke g1', 1, "there is no grant or token 'g1'; list them with recorder grants"],
    ['grant --rack agnt --verbs read --expires 1d', 2, "did you mean 'agent'?"],
    ['grant --rack agent --verbs read --expires 1d --from yesterday', 2, '--from: expected now or beginning'],
  ])('refuses %s in one line', async (words, code, message) => {
    const answer = await lathe(words);
    expect([answer.code, answer.stdout]).toEqual([code, '']);
    expect(answer.stderr.split('\n')[0]).toContain(message);
  });

  it('takes effect at once in a host that runs on the same data directory', async () => {
    const host = await hostOf('beside');
    try {
      await host.change('agent', { armed: true }, 'bearer');
      await json(grantOf, 'beside');
      const { token, id } = await json<WriteToken & { token: string }>('token --rack agent', 'beside');
      const event = { id: 'e1', at: new Date().toISOString(), kind: 'message' };
      expect(await host.ingest(token, [event], 'bearer')).toMatchObject({ accepted: 1 });
      expect((await json<Rack[]>('racks', 'beside')).find((one) => one.id === 'agent')).toMatchObject({
        armed: true,
        events: 1,
      });
      await json(`revoke ${id}`, 'beside');
      await expect(host.ingest(token, [event], 'bearer')).rejects.toMatchObject({ kind: 'unauthorized' });
      const acts = (await json<ReviewEntry[]>('review', 'beside')).map(({ act, by }) => `${by} ${act}`);
      expect(acts).toEqual(
        expect.arrayContaining([
          'bearer arm',
          'operator grant',
          'operator token',
          'bearer ingest',
          'bearer refused',
        ]),
      );
    } finally {
      await host.close();
    }
  });
});
