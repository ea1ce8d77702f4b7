/** A host that was killed while it changed a file determines from the path alone whether the change was made. */
import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { ChangeTool, Proposal } from '../../src/agent/tool.ts';
import { fsDelete } from '../../src/agent/tools/builtin/fs-delete.ts';
import { fsEdit } from '../../src/agent/tools/builtin/fs-edit.ts';
import { fsMkdir } from '../../src/agent/tools/builtin/fs-mkdir.ts';
import { fsRename } from '../../src/agent/tools/builtin/fs-rename.ts';
import { fsWrite } from '../../src/agent/tools/builtin/fs-write.ts';
import { FileChanges, type StagedFile } from '../../src/agent/tools/builtin/staged-file.ts';
import { Confinement } from '../../src/agent/tools/paths/confinement.ts';
import { describeDatabases } from '../support/databases.ts';
import { context, leaveApplying, pendingHosts } from '../support/pending-world.ts';

const never = new AbortController().signal;

/** Content of a path: a text, an empty folder, or nothing. */
type Held = string | typeof emptyFolder | undefined;
const emptyFolder = Symbol('an empty folder');

function put(path: string, held: Held): void {
  rmSync(path, { recursive: true, force: true });
  if (held === emptyFolder) mkdirSync(path);
  else if (held !== undefined) writeFileSync(path, held);
}

function heldAt(path: string): Held {
  if (!existsSync(path)) return undefined;
  return lstatSync(path).isDirectory() ? emptyFolder : readFileSync(path, 'utf8');
}

interface Case {
  readonly what: string;
  readonly tool: string;
  readonly args: Record<string, unknown>;
  readonly base: Held;
  readonly wanted: Held;
  readonly others: readonly Held[];
}

const cases: readonly Case[] = [
  {
    what: 'fs_write of a new file',
    tool: 'fs_write',
    args: { content: 'mine' },
    base: undefined,
    wanted: 'mine',
    others: ['theirs', '', 'min', emptyFolder],
  },
  {
    what: 'fs_write of an empty file',
    tool: 'fs_write',
    args: { content: '' },
    base: undefined,
    wanted: '',
    others: ['theirs', emptyFolder],
  },
  {
    what: 'fs_write upon a file',
    tool: 'fs_write',
    args: { content: 'mine' },
    base: 'before',
    wanted: 'mine',
    others: ['theirs', undefined, emptyFolder],
  },
  {
    what: 'fs_edit',
    tool: 'fs_edit',
    args: { edits: [{ old_text: 'two', new_text: '2' }] },
    base: 'one two',
    wanted: 'one 2',
    others: ['one two three', undefined, emptyFolder],
  },
  {
    what: 'fs_delete of a file',
    tool: 'fs_delete',
    args: {},
    base: 'before',
    wanted: undefined,
    others: ['theirs', '', emptyFolder],
  },
  {
    what: 'fs_delete of an empty file',
    tool: 'fs_delete',
    args: {},
    base: '',
    wanted: undefined,
    others: ['theirs', emptyFolder],
  },
  {
    what: 'fs_delete of an empty folder',
    tool: 'fs_delete',
    args: {},
    base: emptyFolder,
    wanted: undefined,
    others: ['theirs', ''],
  },
  {
    what: 'fs_mkdir',
    tool: 'fs_mkdir',
    args: {},
    base: undefined,
    wanted: emptyFolder,
    others: ['theirs', ''],
  },
];

describeDatabases('a host that is killed while it changes a file', (url) => {
  const { host } = pendingHosts();

  async function world() {
    const folder = realpathSync(mkdtempSync(join(tmpdir(), 'lathe-crash-')));
    const toolsOf = (forbidden: readonly string[]) => {
      const confinement = new Confinement(forbidden);
      const files = new FileChanges(confinement);
      return [fsWrite, fsEdit, fsDelete, fsRename, fsMkdir].map((tool) => tool(confinement, files));
    };
    const database = await url();
    const grants = { tools: ['*'], read: [], write: [folder], network: [], auto_approve: [] };
    const about = context({ grants });
    const propose = async (name: string, args: Record<string, unknown>) => {
      const tool = toolsOf([]).find((one) => one.name === name);
      const proposal = await tool?.propose({ intent: 'because', ...args }, about);
      if (!tool || !proposal || !('payload' in proposal)) throw new Error(JSON.stringify(proposal));
      return { tool, proposal };
    };
    /** Up to where it is being applied, and no further. */
    const killed = async ({ tool, proposal }: { tool: ChangeTool; proposal: Proposal }) => {
      const { changes, store } = await host(database, { tools: [tool] });
      await changes.stage(tool, proposal, about);
      await leaveApplying(store, 'p1');
      await store.close();
    };
    const next = (forbidden: readonly string[] = []) => host(database, { tools: toolsOf(forbidden) });
    return { folder, path: join(folder, 'x'), about, database, propose, killed, next };
  }

  async function killedIn({ tool, args, base }: Case) {
    const all = await world();
    put(all.path, base);
    await all.killed(await all.propose(tool, { path: all.path, ...args }));
    return all;
  }

  describe.each(cases)('$what', (one) => {
    const { base, wanted, others } = one;
    const ends: [string, Held][] = [
      ['what it was', base],
      ['what it was to be', wanted],
    ];

    it('is staged again when nothing was done, and can be applied', async () => {
      const { path, next } = await killedIn(one);
      const { changes, acts } = await next();
      const change = await changes.get('p1');
      expect(change).toMatchObject({ state: 'staged' });
      expect(change).not.toHaveProperty('decided_by');
      expect(heldAt(path)).toBe(base);
      expect(await acts.list(10)).toMatchObject([
        { verb: 'approve', by: 'operator', outcome: 'refused', details: { recovered: true } },
      ]);
      await changes.approve('p1', 'local', never);
      expect(heldAt(path)).toBe(wanted);
    });

    it('is applied when it was done, and not a second time', async () => {
      const { path, next } = await killedIn(one);
      put(path, wanted);
      const { changes, acts } = await next();
      const applied = { state: 'applied', decided_by: 'operator', output: { ok: true } };
      expect(await changes.get('p1')).toMatchObject(applied);
      expect(await changes.decision('p1', never)).toMatchObject({ state: 'applied' });
      expect(await acts.list(10)).toMatchObject([
        { verb: 'approve', by: 'operator', outcome: 'applied', details: { recovered: true } },
      ]);
      // What comes later is somebody else's.
      put(path, base);
      expect(await changes.approve('p1', 'local', never)).toEqual({ id: 'p1', applied: true });
      expect(heldAt(path)).toBe(base);
    });

    it.each(others.map((held): [string, Held] => [String(held), held]))(
      'failed where the path holds something else: %s',
      async (_, held) => {
        const { path, next } = await killedIn(one);
        put(path, held);
        const { changes } = await next();
        expect(await changes.get('p1')).toMatchObject({
          state: 'failed',
          output: { ok: false, output: expect.stringContaining('It may have been applied') as string },
        });
        const again = await changes.approve('p1', 'local', never).catch((error: unknown) => error);
        expect(again).toMatchObject({ kind: 'conflict', code: 'already_failed' });
        expect(heldAt(path)).toBe(held);
      },
    );

    it.each(ends)('fails when the path now passes through a link to %s', async (_, held) => {
      const { folder, path, next } = await killedIn(one);
      const target = join(folder, 'target');
      put(target, held);
      rmSync(path, { recursive: true, force: true });
      symlinkSync(target, path);
      const { changes } = await next();
      expect(await changes.get('p1')).toMatchObject({ state: 'failed' });
      expect([lstatSync(path).isSymbolicLink(), heldAt(target)]).toEqual([true, held]);
    });

    it('fails when its folder was replaced by a link', async () => {
      const all = await world();
      const [inner, moved] = [join(all.folder, 'inner'), join(all.folder, 'moved')];
      const path = join(inner, 'x');
      mkdirSync(inner);
      put(path, base);
      await all.killed(await all.propose(one.tool, { path, ...one.args }));
      renameSync(inner, moved);
      symlinkSync(moved, inner);
      const { changes } = await all.next();
      expect(await changes.get('p1')).toMatchObject({ state: 'failed' });
      expect(heldAt(join(moved, 'x'))).toBe(base);
    });

    it.each(ends)('discloses nothing about a path that is no longer granted: %s', async (_, held) => {
      const { folder, path, next } = await killedIn(one);
      put(path, held);
      const { changes } = await next([folder]);
      expect(await changes.get('p1')).toMatchObject({ state: 'failed' });
    });

    it('is recognized as done when the process died after it', async () => {
      const { path, about, database, propose, next } = await world();
      put(path, base);
      const { tool, proposal } = await propose(one.tool, { path, ...one.args });
      const done = Promise.withResolvers<void>();
      const silent: ChangeTool = {
        ...tool,
        apply: async (payload, signal) => {
          await tool.apply(payload, signal);
          done.resolve();
          return await new Promise(() => undefined);
        },
      };
      const first = await host(database, { tools: [silent] });
      await first.changes.stage(silent, proposal, about);
      void first.changes.approve('p1', 'operator', never);
      await done.promise;
      await first.store.close();
      const { changes } = await next();
      expect(await changes.get('p1')).toMatchObject({ state: 'applied', decided_by: 'operator' });
      expect(heldAt(path)).toBe(wanted);
    });
  });

  describe.each<[string, Held]>([
    ['a file', 'before'],
    ['an empty file', ''],
    ['a folder', emptyFolder],
  ])('fs_rename of %s', (_, held) => {
    const found = async (from: Held, to: Held) => {
      const { folder, path, propose, killed, next } = await world();
      const new_path = join(folder, 'new/y');
      put(path, held);
      await killed(await propose('fs_rename', { path, new_path }));
      mkdirSync(join(folder, 'new'));
      put(path, from);
      put(new_path, to);
      const { changes } = await next();
      const { state } = await changes.get('p1');
      expect([heldAt(path), heldAt(new_path)]).toEqual([from, to]);
      return { state, changes, path, new_path };
    };

    it('is staged again when nothing was done, and can be applied', async () => {
      const { state, changes, path, new_path } = await found(held, undefined);
      expect(state).toBe('staged');
      await changes.approve('p1', 'local', never);
      expect([heldAt(path), heldAt(new_path)]).toEqual([undefined, held]);
    });

    it('is applied when it was done', async () => {
      expect(await found(undefined, held)).toMatchObject({ state: 'applied' });
    });

    it('failed where either name has something else', async () => {
      for (const [from, to] of [
        [undefined, undefined],
        ['theirs', undefined],
        [undefined, 'theirs'],
        ['theirs', held],
        [held, 'theirs'],
        [held, held],
      ] as const)
        expect([from, to, (await found(from, to)).state]).toEqual([from, to, 'failed']);
    });
  });

  it('is not done for a folder that is no longer empty, which stays', async () => {
    const { path, propose, killed, next } = await world();
    mkdirSync(path);
    await killed(await propose('fs_delete', { path }));
    writeFileSync(join(path, 'new'), 'x');
    const { changes } = await next();
    expect(await changes.get('p1')).toMatchObject({ state: 'staged' });
    const refused = await changes.approve('p1', 'local', never).catch((error: unknown) => error);
    expect(refused).toMatchObject({ code: 'base_moved' });
    expect(readFileSync(join(path, 'new'), 'utf8')).toBe('x');
  });

  it('is done for a file that was deleted with its folder', async () => {
    const { folder, propose, killed, next } = await world();
    const path = join(folder, 'inner/x');
    mkdirSync(join(folder, 'inner'));
    writeFileSync(path, 'before');
    await killed(await propose('fs_delete', { path }));
    rmSync(join(folder, 'inner'), { recursive: true });
    expect(await (await next()).changes.get('p1')).toMatchObject({ state: 'applied' });
  });

  it('is not done for a new file whose folders do not exist', async () => {
    const { folder, propose, killed, next } = await world();
    const path = join(folder, 'a/b/x');
    await killed(await propose('fs_write', { path, content: 'mine' }));
    const { changes } = await next();
    expect(await changes.get('p1')).toMatchObject({ state: 'staged' });
    await changes.approve('p1', 'local', never);
    expect(readFileSync(path, 'utf8')).toBe('mine');
  });

  it.each<[string, Held, string]>([
    ['applied where the path holds it', 'same', 'applied'],
    ['failed where it holds something else', 'theirs', 'failed'],
    ['failed where it holds nothing', undefined, 'failed'],
  ])('of a change without effect: %s', async (_, held, state) => {
    const { path, propose, killed, next } = await world();
    writeFileSync(path, 'same');
    const { tool, proposal } = await propose('fs_write', { path, content: 'mine' });
    const payload: StagedFile = { ...(proposal.payload as StagedFile), change: { contents: 'same' } };
    await killed({ tool, proposal: { ...proposal, payload } });
    put(path, held);
    expect(await (await next()).changes.get('p1')).toMatchObject({ state });
  });
});
