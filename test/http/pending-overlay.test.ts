/** Random changes of one task, renames among them, against a model of a file system: what is seen, and what is made. */
import fc from 'fast-check';
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import { FileChanges, type StagedFile } from '../../src/agent/tools/builtin/staged-file.ts';
import { freshSqlite } from '../support/databases.ts';
import { pendingHosts } from '../support/pending-world.ts';
import { routeServers } from '../support/serve-routes.ts';
import { stagedWorld } from '../support/staged-world.ts';
import { runsRest } from '../support/tier.ts';

type Held = string | { readonly folder: true };
/** Paths of everything in a folder, and what is there. */
type Files = Map<string, Held>;
const folder: Held = { folder: true };

interface Op {
  readonly tool: 'fs_write' | 'fs_edit' | 'fs_delete' | 'fs_mkdir' | 'fs_rename';
  readonly path: string;
  readonly to: string;
}

const above = (path: string): string[] =>
  path === '.' || dirname(path) === '.' ? [] : [dirname(path), ...above(dirname(path))];
const below = (files: Files, path: string) =>
  [...files].filter(([one]) => one === path || one.startsWith(`${path}/`));

/** The files after a change; undefined where it must be refused. */
function applied(files: Files, { tool, path, to }: Op, text: string): Files | undefined {
  const held = files.get(path);
  const isBelowFile = (one: string) => above(one).some((folderOf) => typeof files.get(folderOf) === 'string');
  const put = (one: string, what: Held, all: Files): Files =>
    new Map([...all, ...above(one).map((folderOf) => [folderOf, folder] as const), [one, what]]);
  const without = (gone: string) => new Map([...files].filter(([one]) => one !== gone));
  switch (tool) {
    case 'fs_write':
      return held === folder || isBelowFile(path) ? undefined : put(path, text, files);
    case 'fs_edit':
      return typeof held === 'string' ? put(path, text, files) : undefined;
    case 'fs_mkdir':
      return held !== undefined || isBelowFile(path) ? undefined : put(path, folder, files);
    case 'fs_delete':
      return held === undefined || below(files, path).length > 1 ? undefined : without(path);
    case 'fs_rename': {
      if (held === undefined || files.has(to) || isBelowFile(to) || to.startsWith(`${path}/`))
        return undefined;
      const moved = below(files, path);
      let left: Files = new Map([...files].filter(([one]) => !moved.some(([gone]) => gone === one)));
      for (const [one, what] of moved) left = put(to + one.slice(path.length), what, left);
      return left;
    }
  }
}

function onDisk(root: string): Files {
  const names = readdirSync(root, { recursive: true }).map(String);
  return new Map(
    names.map((name) => {
      const path = join(root, name);
      return [name, statSync(path).isDirectory() ? folder : readFileSync(path, 'utf8')] as const;
    }),
  );
}

const sorted = (files: Files) => [...files].toSorted(([one], [other]) => (one < other ? -1 : 1));

const path = fc
  .array(fc.constantFrom('a', 'b', 'c'), { minLength: 1, maxLength: 3 })
  .map((names) => names.join('/'));
const op: fc.Arbitrary<Op> = fc.record({
  tool: fc.constantFrom(
    'fs_write',
    'fs_edit',
    'fs_delete',
    'fs_mkdir',
    'fs_rename',
    'fs_rename',
    'fs_rename',
  ),
  path,
  to: path,
});
const situation = fc.record({
  first: fc.array(fc.record({ path, isFolder: fc.boolean() }), { maxLength: 6 }),
  ops: fc.array(op, { minLength: 1, maxLength: 14 }),
  /** Index of the change that crashes or fails. */
  at: fc.nat(12),
});

describe('random changes of one task', () => {
  const { host } = pendingHosts();
  const serve = routeServers();

  /** Stages the changes, and checks that exactly the impossible ones are refused. */
  async function staging() {
    const world = await stagedWorld(freshSqlite(), host, serve);
    let tasks = 0;
    const start = async ({
      first,
      ops,
    }: {
      first: readonly { path: string; isFolder: boolean }[];
      ops: readonly Op[];
    }) => {
      const task = `t${++tasks}`;
      const root = join(world.folder, task);
      mkdirSync(root);
      let files: Files = new Map();
      for (const [index, { path: name, isFolder }] of first.entries()) {
        const made = applied(
          files,
          { tool: isFolder ? 'fs_mkdir' : 'fs_write', path: name, to: '' },
          `first ${index}`,
        );
        if (!made) continue;
        files = made;
        if (isFolder) mkdirSync(join(root, name), { recursive: true });
        else {
          mkdirSync(dirname(join(root, name)), { recursive: true });
          writeFileSync(join(root, name), `first ${index}`);
        }
      }
      const before = files;
      const ids: string[] = [];
      for (const [index, one] of ops.entries()) {
        const text = `text ${index}`;
        const after = applied(files, one, text);
        const held = files.get(one.path);
        const args = {
          fs_write: { content: text },
          fs_edit: { edits: [{ old_text: typeof held === 'string' ? held : 'x', new_text: text }] },
          fs_rename: { new_path: join(root, one.to) },
          fs_delete: {},
          fs_mkdir: {},
        }[one.tool];
        const staged = await world
          .stage(one.tool, { path: join(root, one.path), ...args }, task)
          .catch((error: unknown) => error as Error);
        const shown = `${one.tool} ${one.path} ${one.to} in ${JSON.stringify(sorted(files))}`;
        expect([shown, typeof staged === 'string' ? 'staged' : 'refused']).toEqual([
          shown,
          after ? 'staged' : 'refused',
        ]);
        if (typeof staged !== 'string' || !after) continue;
        ids.push(staged);
        files = after;
      }
      return { task, root, before, after: files, ids };
    };
    /** What the tools that read show. */
    const seen = async (root: string, task: string, files: Files) => {
      const listed = (await world.read('fs_list', { path: root, depth: 8, limit: 1000 }, task)).split('\n');
      expect(listed.toSorted()).toEqual(
        files.size === 0
          ? ['[empty folder]']
          : [...files].map(([name, what]) => (what === folder ? `${name}/` : name)).toSorted(),
      );
      const texts = [...files].flatMap(([name, what]) =>
        typeof what === 'string' ? [`${name}:1: ${what}`] : [],
      );
      const found = await world.read('fs_search', { path: root, query: 't', limit: 200 }, task);
      expect(found.split('\n').toSorted()).toEqual(texts.length === 0 ? ['[no matches]'] : texts.toSorted());
      for (const [name, what] of files)
        if (typeof what === 'string')
          expect(await world.read('fs_read', { path: join(root, name) }, task)).toBe(what);
        else expect(await world.read('fs_read', { path: join(root, name) }, task)).toMatch(/is a folder/);
      for (const name of ['a', 'b', 'c', 'a/a', 'a/b', 'b/a', 'c/c/c'])
        if (!files.has(name))
          expect(await world.read('fs_read', { path: join(root, name) }, task)).toMatch(
            /no such file|a part of the path is no folder/,
          );
    };
    const done = (root: string) => rmSync(root, { recursive: true });
    return { ...world, start, seen, done };
  }

  const runs = { numRuns: runsRest ? 100 : 20, endOnFailure: true };

  it('are seen as they will be, and together leave what was seen', async () => {
    const { changes, start, seen, done } = await staging();
    await fc.assert(
      fc.asyncProperty(situation, async (one) => {
        const { task, root, before, after, ids } = await start(one);
        expect(sorted(onDisk(root))).toEqual(sorted(before));
        await seen(root, task, after);
        if (ids.length > 0) await changes.approveSet(ids, 'local');
        expect(sorted(onDisk(root))).toEqual(sorted(after));
        await seen(root, task, after);
        done(root);
      }),
      runs,
    );
  });

  it('leave the same when they are approved one by one', async () => {
    const { changes, start, seen, done } = await staging();
    await fc.assert(
      fc.asyncProperty(situation, async (one) => {
        const { task, root, after, ids } = await start(one);
        for (const id of ids) {
          await changes.approve(id, 'local', new AbortController().signal);
          await seen(root, task, after);
        }
        expect(sorted(onDisk(root))).toEqual(sorted(after));
        done(root);
      }),
      { ...runs, numRuns: runs.numRuns / 2 },
    );
  });

  it('leave the same after a crash in the middle, and nothing after a failure', async () => {
    const { changes, store, start, done } = await staging();
    await fc.assert(
      fc.asyncProperty(situation, async (one) => {
        const { root, before, after, ids } = await start(one);
        if (ids.length === 0) return;
        const at = one.at % ids.length;
        const original = Object.getOwnPropertyDescriptor(FileChanges.prototype, 'applyNow')
          ?.value as FileChanges['applyNow'];
        let count = 0;
        const made: StagedFile[] = [];
        const failing = vi.spyOn(FileChanges.prototype, 'applyNow').mockImplementation(function (
          this: FileChanges,
          staged,
          signal,
        ) {
          if (count++ === at) throw new Error('the disk is full');
          if (count <= at) made.push(staged);
          return Reflect.apply(original, this, [staged, signal]);
        });
        try {
          await expect(changes.approveSet(ids, 'local')).rejects.toMatchObject({ code: 'apply_failed' });
          expect(sorted(onDisk(root))).toEqual(sorted(before));
          // As a host leaves it that is killed after the first changes of the set.
          count = at + 1;
          const changer = failing.mock.contexts[0] as FileChanges;
          for (const staged of made)
            await Reflect.apply(original, changer, [staged, new AbortController().signal]);
        } finally {
          failing.mockRestore();
        }
        await store.transaction((tx) =>
          tx
            .updateTable('pending')
            .set({ state: 'applying', applier: store.endpointId, decided_by: 'operator' })
            .set({ decided_at: store.time(), approved_with: ids[0] ?? null })
            .where('id', 'in', ids)
            .execute(),
        );
        await changes.sweep();
        for (const id of ids) expect(await changes.get(id)).toMatchObject({ state: 'applied' });
        expect(sorted(onDisk(root))).toEqual(sorted(after));
        done(root);
      }),
      {
        ...runs,
        // Its last path lies below a file, which an earlier change moves away.
        examples: [
          [
            {
              first: [{ path: 'a/b', isFolder: false }],
              ops: [
                { tool: 'fs_mkdir', path: 'a/c', to: 'a' },
                { tool: 'fs_mkdir', path: 'a/c/b', to: 'a' },
                { tool: 'fs_rename', path: 'a/b', to: 'b/b/b' },
                { tool: 'fs_rename', path: 'b/b/b', to: 'a/b/b' },
              ],
              at: 1,
            },
          ],
        ],
      },
    );
  });
});
