/** Several changes of one task: each sees those before it, and they are applied together or not at all. */
import {
  chmodSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import { FileChanges } from '../../src/agent/tools/builtin/staged-file.ts';
import type { ChangeTool } from '../../src/agent/tool.ts';
import { describeDatabases } from '../support/databases.ts';
import { context, execProposal, pendingHosts } from '../support/pending-world.ts';
import { routeServers } from '../support/serve-routes.ts';
import { stagedWorld } from '../support/staged-world.ts';

const never = new AbortController().signal;

describeDatabases('changes of one task', (url) => {
  const { host } = pendingHosts();
  const serve = routeServers();

  const world = async () => stagedWorld(await url(), host, serve);

  it('see each other, and other tasks do not see them', async () => {
    const { folder, stage, read, text } = await world();
    writeFileSync(join(folder, 'a.txt'), 'one\ntwo\n');
    writeFileSync(join(folder, 'old.txt'), 'two');
    await stage('fs_edit', { path: 'a.txt', edits: [{ old_text: 'one', new_text: 'first' }] });
    await stage('fs_edit', { path: 'a.txt', edits: [{ old_text: 'first\n', new_text: 'first\nsecond\n' }] });
    await stage('fs_write', { path: 'new/deep/b.txt', content: 'in two\n' });
    await stage('fs_delete', { path: 'old.txt' });
    expect(await read('fs_read', { path: 'a.txt' })).toBe('first\nsecond\ntwo\n');
    expect(await read('fs_read', { path: 'a.txt', start_line: 2, lines: 1 })).toMatch(
      /^second\n\[lines 2 to 2/,
    );
    expect(await read('fs_read', { path: 'new/deep/b.txt' })).toBe('in two\n');
    expect(await read('fs_read', { path: 'old.txt' })).toMatch(/its deletion is staged/);
    expect(await read('fs_list', { path: '.', depth: 3 })).toBe('a.txt\nnew/\nnew/deep/\nnew/deep/b.txt');
    expect(await read('fs_list', { path: 'new' })).toBe('deep/');
    expect(await read('fs_search', { query: 'two' })).toBe('a.txt:3: two\nnew/deep/b.txt:1: in two');
    expect(await read('fs_search', { query: 'two', path: 'new' })).toBe('deep/b.txt:1: in two');
    expect(await read('fs_search', { query: 'second', path: 'a.txt' })).toBe('a.txt:2: second');
    // A staged file can be changed and taken back like any other.
    await stage('fs_delete', { path: 'new/deep/b.txt' });
    // Its folders are made with it, and stay.
    expect(await read('fs_list', { path: '.', depth: 3 })).toBe('a.txt\nnew/\nnew/deep/');
    await stage('fs_write', { path: 'old.txt', content: 'again' });
    expect(await read('fs_read', { path: 'old.txt' })).toBe('again');
    await expect(stage('fs_delete', { path: 'new/deep/b.txt' })).rejects.toThrow('there is no such file');
    // Nothing of it is on the disk.
    expect(text('a.txt')).toBe('one\ntwo\n');
    expect(readdirSync(folder)).toEqual(['a.txt', 'old.txt']);
    expect(await read('fs_read', { path: 'a.txt' }, 't2')).toBe('one\ntwo\n');
    expect(await read('fs_list', { path: '.' }, 't2')).toBe('a.txt\nold.txt');
    expect(await read('fs_read', { path: 'new/deep/b.txt' }, 't2')).toMatch(/no such file/);
  });

  it('see renamed files and folders at their new place, also with links in them', async () => {
    const { folder, stage, read } = await world();
    mkdirSync(join(folder, 'old/deep'), { recursive: true });
    writeFileSync(join(folder, 'old/deep/x.txt'), 'in x');
    writeFileSync(join(folder, 'target.txt'), 'aimed at');
    symlinkSync('../target.txt', join(folder, 'old/link'));
    symlinkSync('old', join(folder, 'alias'));
    await stage('fs_rename', { path: 'old', new_path: 'new/place' });
    expect(await read('fs_list', { path: '.', depth: 4 })).toBe(
      'alias -> old\nnew/\nnew/place/\nnew/place/deep/\nnew/place/deep/x.txt\nnew/place/link -> ../target.txt\ntarget.txt',
    );
    expect(await read('fs_read', { path: 'new/place/deep/x.txt' })).toBe('in x');
    expect(await read('fs_search', { query: 'in x' })).toBe('new/place/deep/x.txt:1: in x');
    expect(await read('fs_search', { query: 'in x', path: 'new/place/deep' })).toBe('x.txt:1: in x');
    expect(await read('fs_read', { path: 'old/deep/x.txt' })).toMatch(
      /its renaming to \S+new\/place is staged/,
    );
    expect(await read('fs_list', { path: 'old' })).toMatch(/its renaming to/);
    // A link may lead elsewhere from the new place.
    expect(await read('fs_read', { path: 'new/place/link' })).toMatch(/over a link in a renamed folder/);
    expect(await read('fs_read', { path: 'old/link' })).toMatch(
      /leads through a folder that a staged change/,
    );
    expect(await read('fs_read', { path: 'alias/deep/x.txt' })).toMatch(/its renaming to/);
    await expect(stage('fs_write', { path: 'new/place/link', content: 'x' })).rejects.toThrow('over a link');
    await expect(stage('fs_rename', { path: 'new/place/link', new_path: 'b' })).rejects.toThrow(
      'over a link',
    );
    await expect(stage('fs_rename', { path: 'new', new_path: 'new/place/deep/y' })).rejects.toThrow(
      'into itself',
    );
  });

  it('are not approved before a rename that they need, or that needs them', async () => {
    const { changes, folder, stage, approve, states, acts } = await world();
    mkdirSync(join(folder, 'a'));
    await stage('fs_write', { path: 'a/x', content: 'x' });
    await stage('fs_rename', { path: 'a', new_path: 'b' });
    await stage('fs_write', { path: 'b/y', content: 'y' });
    await stage('fs_write', { path: 'c', content: 'c' });
    const buildsOn = (id: string, earlier: string) => ({
      code: 'builds_on',
      message: expect.stringContaining(`${id} builds on ${earlier}, which is still staged`) as string,
    });
    await expect(changes.approve('p2', 'local', never)).rejects.toMatchObject(buildsOn('p2', 'p1'));
    await expect(changes.approve('p3', 'local', never)).rejects.toMatchObject(buildsOn('p3', 'p2'));
    expect(await approve(['p1', 'p3'])).toMatchObject({ status: 409, error: buildsOn('p3', 'p2') });
    await changes.approve('p4', 'local', never);
    expect(await states()).toBe('staged staged staged applied');
    expect((await acts.list(10)).filter(({ outcome }) => outcome === 'refused')).toHaveLength(3);
    // Without the first it needs nothing.
    await changes.discard('p1', 'local');
    expect(await approve(['p2', 'p3'])).toMatchObject({ status: 200 });
    expect(readdirSync(folder, { recursive: true }).map(String).toSorted()).toEqual(['b', 'b/y', 'c']);
  });

  it('are made at once by a grant only where they need no staged rename', async () => {
    const { changes, folder, stage, tools, staging } = await world();
    writeFileSync(join(folder, 'a'), 'a');
    await stage('fs_rename', { path: 'a', new_path: 'b/a' });
    const write = tools.find(({ name }) => name === 'fs_write') as ChangeTool;
    const proposed = async (path: string) => {
      const proposal = await write.propose({ path, content: 'x', intent: '' }, staging('t1'));
      if (!('payload' in proposal)) throw new Error(proposal.output);
      return proposal;
    };
    await expect(
      changes.applyNow(write, await proposed('b/a/../c').catch(() => proposed('a')), staging('t1')),
    ).rejects.toMatchObject({
      code: 'builds_on',
    });
    expect(await changes.applyNow(write, await proposed('c'), staging('t1'))).toMatchObject({ ok: true });
    expect(readdirSync(folder)).toEqual(['a', 'c']);
  });

  it('are approved one by one in their order', async () => {
    const { changes, folder, stage, text, states } = await world();
    writeFileSync(join(folder, 'a.txt'), 'one');
    const first = await stage('fs_write', { path: 'a.txt', content: 'two' });
    const second = await stage('fs_write', { path: 'a.txt', content: 'three' });
    await expect(changes.approve(second, 'local', never)).rejects.toMatchObject({
      code: 'builds_on',
      message: expect.stringContaining('p2 builds on p1, which is still staged: approve p1 first, or both'),
    });
    expect(await states()).toBe('staged staged');
    await changes.approve(first, 'local', never);
    await changes.approve(second, 'local', never);
    expect(text('a.txt')).toBe('three');
  });

  it('are applied together, in the order that they were staged', async () => {
    const { folder, stage, approve, text, states, acts } = await world();
    mkdirSync(join(folder, 'gone'));
    writeFileSync(join(folder, 'gone/x'), 'x');
    writeFileSync(join(folder, 'a.txt'), 'one');
    await stage('fs_write', { path: 'a.txt', content: 'two' });
    await stage('fs_write', { path: 'sub/b.txt', content: 'b' });
    await stage('fs_delete', { path: 'gone/x' });
    await stage('fs_delete', { path: 'gone' });
    await stage('fs_write', { path: 'a.txt', content: 'three' });
    expect(await approve(['p5', 'p4', 'p2', 'p1', 'p3'])).toEqual({
      status: 200,
      applied: ['p1', 'p2', 'p3', 'p4', 'p5'],
    });
    expect(readdirSync(folder)).toEqual(['a.txt', 'sub']);
    expect([text('a.txt'), text('sub/b.txt')]).toEqual(['three', 'b']);
    expect(await states()).toBe('applied applied applied applied applied');
    expect((await acts.list(10)).map(({ verb, target, outcome }) => `${verb} ${target} ${outcome}`)).toEqual(
      ['p1', 'p2', 'p3', 'p4', 'p5'].map((id) => `approve ${id} applied`),
    );
  });

  it('are applied once, however often and by how many they are approved', async () => {
    const { folder, changes, stage, approve, text, states } = await world();
    writeFileSync(join(folder, 'a.txt'), 'one');
    await stage('fs_write', { path: 'a.txt', content: 'two' });
    await stage('fs_write', { path: 'a.txt', content: 'three' });
    const applied = { status: 200, applied: ['p1', 'p2'] };
    const answers = await Promise.all([
      approve(['p1', 'p2']),
      approve(['p2', 'p1']),
      changes.approve('p1', 'local', never).catch((error: unknown) => error),
    ]);
    // One of them is first; the others wait for it, or are refused.
    expect(await states()).toMatch(/^applied (?:applied|staged)$/);
    if ((await changes.get('p2')).state === 'staged') await changes.approve('p2', 'local', never);
    expect(text('a.txt')).toBe('three');
    for (const { status } of answers.slice(0, 2) as { status: number }[])
      expect([200, 409]).toContain(status);
    // A client that did not get its answer asks again.
    expect(await approve(['p2', 'p1'])).toEqual(applied);
    expect(text('a.txt')).toBe('three');
  });

  it('are seen below folders whose names have characters of any kind', async () => {
    const { stage, read } = await world();
    await stage('fs_write', { path: '\u{1F600} \u00e4/b.txt', content: 'b' });
    expect(await read('fs_list', { path: '\u{1F600} \u00e4' })).toBe('b.txt');
    await stage('fs_delete', { path: '\u{1F600} \u00e4/b.txt' });
    expect(await read('fs_list', { path: '\u{1F600} \u00e4/b.txt' })).toMatch(/its deletion is staged/);
  });

  it('are not applied at all when one of the files is not what it was', async () => {
    const { folder, stage, approve, text, states } = await world();
    writeFileSync(join(folder, 'b.txt'), 'one');
    await stage('fs_write', { path: 'a.txt', content: 'a' });
    await stage('fs_write', { path: 'b.txt', content: 'two' });
    writeFileSync(join(folder, 'b.txt'), 'theirs');
    expect(await approve(['p1', 'p2'])).toMatchObject({
      status: 409,
      error: {
        code: 'base_moved',
        message: expect.stringMatching(/b\.txt is not what it was .* stay staged/),
      },
    });
    expect([text('a.txt'), text('b.txt')]).toEqual([undefined, 'theirs']);
    expect(await states()).toBe('staged staged');
    writeFileSync(join(folder, 'b.txt'), 'one');
    expect(await approve(['p1', 'p2'])).toMatchObject({ status: 200 });
  });

  it('are no set where two were proposed for the same text', async () => {
    const { folder, stage, approve, states } = await world();
    writeFileSync(join(folder, 'a.txt'), 'one');
    await stage('fs_write', { path: 'a.txt', content: 'two' }, 't1');
    await stage('fs_write', { path: 'a.txt', content: 'three' }, 't2');
    expect(await approve(['p1', 'p2'])).toMatchObject({
      status: 409,
      error: { code: 'not_a_set', message: expect.stringMatching(/a\.txt were proposed for the same text/) },
    });
    expect(await states()).toBe('staged staged');
  });

  it('are taken back when a later one fails', async () => {
    const { folder, stage, approve, states } = await world();
    writeFileSync(join(folder, 'a.txt'), 'one');
    chmodSync(join(folder, 'a.txt'), 0o640);
    writeFileSync(join(folder, 'b.txt'), 'b');
    mkdirSync(join(folder, 'empty'));
    await stage('fs_write', { path: 'a.txt', content: 'two' });
    await stage('fs_delete', { path: 'b.txt' });
    await stage('fs_delete', { path: 'empty' });
    await stage('fs_write', { path: 'new/deep/c.txt', content: 'c' });
    await stage('fs_delete', { path: 'a.txt' });
    await stage('fs_write', { path: 'other/deep/last.txt', content: 'last' });
    const original = Object.getOwnPropertyDescriptor(FileChanges.prototype, 'applyNow')
      ?.value as FileChanges['applyNow'];
    const failing = vi.spyOn(FileChanges.prototype, 'applyNow').mockImplementation(function (
      this: FileChanges,
      staged,
      signal,
    ) {
      if (staged.path.endsWith('last.txt')) throw new Error('the disk is full');
      return Reflect.apply(original, this, [staged, signal]);
    });
    try {
      expect(await approve(['p1', 'p2', 'p3', 'p4', 'p5', 'p6'])).toMatchObject({
        status: 409,
        error: { code: 'apply_failed', message: expect.stringContaining('the disk is full') },
      });
    } finally {
      failing.mockRestore();
    }
    expect(readdirSync(folder, { recursive: true }).map(String).toSorted()).toEqual([
      'a.txt',
      'b.txt',
      'empty',
    ]);
    expect(readFileSync(join(folder, 'a.txt'), 'utf8')).toBe('one');
    expect(statSync(join(folder, 'a.txt')).mode & 0o777).toBe(0o640);
    expect(await states()).toBe('staged staged staged staged staged staged');
    expect(await approve(['p1', 'p2', 'p3', 'p4', 'p5', 'p6'])).toMatchObject({ status: 200 });
    expect(readdirSync(folder, { recursive: true }).map(String).toSorted()).toEqual([
      'new',
      'new/deep',
      'new/deep/c.txt',
      'other',
      'other/deep',
      'other/deep/last.txt',
    ]);
  });

  it('are refused with every reason when they are no set', async () => {
    const { changes, tools, stage, approve, states, acts } = await world();
    await stage('fs_write', { path: 'a.txt', content: 'a' });
    await changes.stage(tools.at(-1) as ChangeTool, execProposal(), context());
    await stage('fs_write', { path: 'b.txt', content: 'b' });
    await changes.discard('p3', 'local');
    const { status, error } = await approve(['p1', 'p2', 'p3']);
    expect([status, error?.code]).toEqual([409, 'not_a_set']);
    expect(error?.message).toMatch(
      /^Nothing was applied\. p2 is no change of a file \(run_it\): approve it alone\. p3 was discarded/,
    );
    expect(await states()).toBe('staged staged discarded');
    const refused = (await acts.list(10)).filter(({ outcome }) => outcome === 'refused');
    expect(refused.map(({ target, reason }) => `${target} ${reason}`)).toEqual(
      ['p1', 'p2', 'p3'].map((id) => `${id} not_a_set`),
    );
    expect(await approve(['p1', 'p9'])).toMatchObject({ status: 404 });
    for (const ids of [[], ['p1', 'p1'], [1], 'p1'])
      expect(await approve(ids as string[])).toMatchObject({ status: 400 });
  });

  describe('after a crash', () => {
    /** Up to where the first `done` changes are made, and no further. */
    async function crashed(done: number) {
      const all = await world();
      const { folder, stage, store, changes } = all;
      writeFileSync(join(folder, 'a.txt'), 'one');
      await stage('fs_write', { path: 'a.txt', content: 'two' });
      await stage('fs_write', { path: 'b.txt', content: 'b' });
      await stage('fs_write', { path: 'a.txt', content: 'three' });
      const [one, two, three] = [1, 2, 3].map((n) => changes.get(`p${n}`));
      await Promise.all([one, two, three]);
      await store.transaction((tx) =>
        tx
          .updateTable('pending')
          .set({ state: 'applying', applier: store.endpointId, decided_by: 'operator' })
          .set({ decided_at: store.time(), approved_with: 'p1' })
          .execute(),
      );
      const contents = [
        ['a.txt', 'two'],
        ['b.txt', 'b'],
        ['a.txt', 'three'],
      ] as const;
      for (const [name, content] of contents.slice(0, done)) writeFileSync(join(folder, name), content);
      return all;
    }

    it.each([0, 1, 2, 3])('the rest is applied when %i were', async (done) => {
      const { database, tools, text, states } = await crashed(done);
      const { changes } = await host(database, { tools });
      expect(await states(changes)).toBe('applied applied applied');
      expect([text('a.txt'), text('b.txt')]).toEqual(['three', 'b']);
    });

    it('nothing more is applied when a person changed a file meanwhile', async () => {
      const { folder, database, tools, text, states } = await crashed(1);
      writeFileSync(join(folder, 'b.txt'), 'theirs');
      const { changes } = await host(database, { tools });
      expect(text('b.txt')).toBe('theirs');
      expect(text('a.txt')).toBe('two');
      // Each is what it is found to be: made, neither, or not yet made.
      expect(await states(changes)).toBe('applied failed staged');
    });
  });
});
