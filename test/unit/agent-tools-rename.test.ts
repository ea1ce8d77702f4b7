/** fs_rename and fs_mkdir: what they propose, and what they do where the disk is not what it was. */
import {
  chmod,
  link,
  lstat,
  mkdir,
  readdir,
  readFile,
  realpath,
  rename,
  rm,
  stat,
  symlink,
  writeFile,
} from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { toolWorlds, type ToolWorld } from '../support/agent-tools.ts';

const newWorld = toolWorlds();

const at = (world: ToolWorld, ...names: string[]) => join(world.granted, ...names);
const refusal = async (world: ToolWorld, path: string, to: string) =>
  world.propose('fs_rename', { path, new_path: to });

describe('fs_rename', () => {
  it('moves a file with its mode, and makes the folders above', async () => {
    const world = await newWorld();
    await writeFile(at(world, 'a'), 'text');
    await chmod(at(world, 'a'), 0o640);
    const proposal = await world.proposed('fs_rename', { path: 'a', new_path: 'new/deep/b' });
    expect(proposal).toMatchObject({
      kind: 'file_write',
      summary: `Rename the file (4 bytes) ${at(world, 'a')} to ${at(world, 'new/deep/b')}.`,
      path: at(world, 'new/deep/b'),
      baseHash: 'absent',
      risk: 'medium',
    });
    expect(await world.apply('fs_rename', proposal)).toMatchObject({
      ok: true,
      output: `Renamed ${at(world, 'a')} to ${at(world, 'new/deep/b')}.`,
    });
    expect(await readdir(world.granted)).toEqual(['new']);
    expect(await readFile(at(world, 'new/deep/b'), 'utf8')).toBe('text');
    expect((await stat(at(world, 'new/deep/b'))).mode & 0o777).toBe(0o640);
    expect((await stat(at(world, 'new/deep/b'))).nlink).toBe(1);
    // Once only.
    await expect(world.apply('fs_rename', proposal)).rejects.toMatchObject({ code: 'base_moved' });
  });

  it('moves a folder with all that is in it', async () => {
    const world = await newWorld();
    await mkdir(at(world, 'a/inner'), { recursive: true });
    await writeFile(at(world, 'a/inner/x'), 'x');
    await symlink('/dev/null', at(world, 'a/link'));
    const proposal = await world.proposed('fs_rename', { path: 'a', new_path: 'b' });
    expect(proposal.summary).toBe(`Rename the folder ${at(world, 'a')} to ${at(world, 'b')}.`);
    await world.apply('fs_rename', proposal);
    expect(await readdir(world.granted, { recursive: true })).toEqual([
      'b',
      'b/inner',
      'b/link',
      'b/inner/x',
    ]);
  });

  it('refuses what is no free path, within grants on both ends', async () => {
    const world = await newWorld();
    await mkdir(at(world, 'a/inner'), { recursive: true });
    await writeFile(at(world, 'file'), 'x');
    await writeFile(join(world.outside, 'secret'), 'x');
    await symlink(world.outside, at(world, 'out'));
    await symlink('file', at(world, 'link'));
    const cases: readonly (readonly [string, string, string | RegExp])[] = [
      ['nothing', 'b', 'nothing: there is no such file or folder.'],
      ['a', 'file', 'file exists already, and is not replaced.'],
      ['file', 'a', 'a exists already, and is not replaced.'],
      ['file', 'file', 'file exists already, and is not replaced.'],
      ['file', 'link', 'link exists already, and is not replaced.'],
      ['a', 'a/inner/b', 'a/inner/b lies in a, which cannot be moved into itself.'],
      ['a', 'a/b', 'a/b lies in a, which cannot be moved into itself.'],
      ['file', 'file/b', 'file/b: a part of the path is no folder.'],
      ['link', 'b', 'link is a link; only files and folders can be renamed.'],
      ['file', join(world.outside, 'b'), /outside of the paths .* for writing/],
      [join(world.outside, 'secret'), 'b', /outside of the paths .* for writing/],
      ['file', 'out/b', /outside of the paths/],
      ['out/secret', 'b', /outside of the paths/],
      ['file', join(world.shown, 'b'), /outside of the paths .* for writing/],
      [world.granted, 'b', /cannot be moved into itself/],
      ['file', '', /expected a path/],
      ['file', 'a\0b', /expected a path/],
      ['file', `a/${'x'.repeat(300)}`, /too long/],
      ['file', `new/${'x'.repeat(300)}/y`, /too long/],
      ['file', Array.from({ length: 2500 }, () => 'd').join('/'), /too long/],
      ['x'.repeat(5000), 'b', /too long/],
    ];
    for (const [path, to, output] of cases)
      expect(await refusal(world, path, to), `${path} to ${to.slice(0, 50)}`).toMatchObject({
        ok: false,
        output: typeof output === 'string' ? output : expect.stringMatching(output),
      });
    expect((await readdir(world.granted)).toSorted()).toEqual(['a', 'file', 'link', 'out']);
  });

  it.skipIf(process.platform !== 'linux')(
    'takes names as the file system does: case, unicode, dots',
    async () => {
      const world = await newWorld();
      let name = 'file';
      await writeFile(at(world, name), 'x');
      for (const next of [
        'FILE',
        'file.',
        'file..',
        '...',
        'caf\u00e9',
        'cafe\u0301',
        ' ',
        '-rf',
        'a\\b',
        '\u{1F600}',
      ]) {
        const proposal = await world.proposed('fs_rename', { path: name, new_path: next });
        await world.apply('fs_rename', proposal);
        expect(await readdir(world.granted)).toEqual([next]);
        name = next;
      }
      const misleading = await world.proposed('fs_rename', { path: name, new_path: 'a\u202egpj.exe\nb' });
      expect(misleading.summary).toContain('a\\u{202e}gpj.exe\\u{a}b');
    },
  );

  it('is of high risk where either name is one that other programs run', async () => {
    const world = await newWorld();
    for (const [path, to, isFolder] of [
      ['hook', '.git/hooks/pre-commit', false],
      ['.bashrc', 'old', false],
      ['some.json', 'sub/package.json', false],
      ['hooks', '.git/hooks', true],
      ['.vscode', 'old-settings', true],
      ['conf', '.config', true],
      ['flows', '.github', true],
    ] as const) {
      await rm(world.granted, { recursive: true });
      await mkdir(world.granted);
      if (isFolder) await mkdir(at(world, path));
      else await writeFile(at(world, path), 'x');
      const proposal = await world.proposed('fs_rename', { path, new_path: to });
      expect([path, proposal.risk, proposal.summary]).toEqual([
        path,
        'high',
        expect.stringMatching(/ High risk: \S.*\.$/),
      ]);
    }
  });

  it('replaces nothing that appears at the new path meanwhile', async () => {
    const world = await newWorld();
    await writeFile(at(world, 'a'), 'mine');
    await mkdir(at(world, 'f'));
    const file = await world.proposed('fs_rename', { path: 'a', new_path: 'b' });
    const folder = await world.proposed('fs_rename', { path: 'f', new_path: 'g' });
    for (const put of [
      (path: string) => writeFile(path, 'theirs'),
      (path: string) => mkdir(path),
      (path: string) => symlink('a', path),
      (path: string) => symlink('/absent', path),
    ]) {
      for (const name of ['b', 'g']) await put(at(world, name));
      await expect(world.apply('fs_rename', file)).rejects.toMatchObject({ code: 'base_moved' });
      await expect(world.apply('fs_rename', folder)).rejects.toMatchObject({ code: 'base_moved' });
      expect((await readdir(world.granted)).toSorted()).toEqual(['a', 'b', 'f', 'g']);
      for (const name of ['b', 'g']) await rm(at(world, name), { recursive: true });
    }
    expect(await world.apply('fs_rename', file)).toMatchObject({ ok: true });
    expect(await world.apply('fs_rename', folder)).toMatchObject({ ok: true });
  });

  it('moves nothing but what it was proposed for', async () => {
    const world = await newWorld();
    await writeFile(at(world, 'a'), 'one');
    await mkdir(at(world, 'f'));
    const file = await world.proposed('fs_rename', { path: 'a', new_path: 'sub/b' });
    const folder = await world.proposed('fs_rename', { path: 'f', new_path: 'sub/g' });
    await writeFile(join(world.outside, 'secret'), 'one');
    for (const put of [
      (path: string) => writeFile(path, 'two'),
      (path: string) => symlink(join(world.outside, 'secret'), path),
      (path: string) => symlink(world.outside, path),
      () => Promise.resolve(),
    ]) {
      for (const name of ['a', 'f']) {
        await rm(at(world, name), { recursive: true });
        await put(at(world, name));
      }
      await expect(world.apply('fs_rename', file)).rejects.toMatchObject({ code: 'base_moved' });
      await expect(world.apply('fs_rename', folder)).rejects.toMatchObject({ code: 'base_moved' });
      expect(await readdir(world.granted)).not.toContain('sub');
      for (const name of ['a', 'f']) await mkdir(at(world, name), { recursive: true }).catch(() => undefined);
    }
    expect(await readdir(world.outside)).toEqual(['secret']);
  });

  it('stays where it is when a folder above either end becomes a link', async () => {
    const world = await newWorld();
    await mkdir(at(world, 'from'));
    await mkdir(at(world, 'to'));
    await writeFile(at(world, 'from/a'), 'one');
    await writeFile(join(world.outside, 'a'), 'one');
    const proposal = await world.proposed('fs_rename', { path: 'from/a', new_path: 'to/b' });
    for (const name of ['from', 'to']) {
      await rename(at(world, name), at(world, 'kept'));
      await symlink(world.outside, at(world, name));
      await expect(world.apply('fs_rename', proposal)).rejects.toMatchObject({ code: 'base_moved' });
      await rm(at(world, name));
      await rename(at(world, 'kept'), at(world, name));
    }
    expect(await readdir(world.outside)).toEqual(['a']);
    expect(await world.apply('fs_rename', proposal)).toMatchObject({ ok: true });
  });

  it('moves no folder that holds grants, the working folder, or data of the host', async () => {
    const world = await newWorld({ forbidden: [join(await realpath('/tmp'), 'lathe-no-such-data')] });
    await mkdir(at(world, 'parent/work'), { recursive: true });
    const inner = { ...world.context(), cwd: at(world, 'parent/work') };
    const moved = { path: at(world, 'parent'), new_path: at(world, 'other') };
    expect(await world.propose('fs_rename', moved, inner)).toMatchObject({
      ok: false,
      output: expect.stringMatching(/holds, a folder that this agent works in \(work\)/),
    });
    const granted = world.context({ read: [at(world, 'parent/work')] });
    expect(await world.propose('fs_rename', moved, granted)).toMatchObject({ ok: false });
    expect(await world.propose('fs_rename', moved)).toMatchObject({ kind: 'file_write' });

    const data = at(world, 'parent/work');
    const forbidding = await newWorld({ forbidden: [data] });
    const context = { ...world.context(), cwd: undefined };
    for (const path of ['parent', 'parent/work'])
      expect(
        await forbidding.propose(
          'fs_rename',
          { path: at(world, path), new_path: at(world, 'other') },
          context,
        ),
      ).toMatchObject({ ok: false, output: expect.stringContaining('belongs to the host itself') });
    const proposal = await world.proposed('fs_rename', moved);
    await expect(forbidding.apply('fs_rename', proposal)).rejects.toMatchObject({ code: 'base_moved' });
    expect(await readdir(world.granted)).toEqual(['parent']);
  });

  it('is completed when a crash left both names of a file', async () => {
    const world = await newWorld();
    await writeFile(at(world, 'a'), 'one');
    const proposal = await world.proposed('fs_rename', { path: 'a', new_path: 'b' });
    const tool = world.tool('fs_rename');
    const verify = () => (tool.kind === 'change' ? tool.verify?.(proposal.payload) : undefined);
    expect(await verify()).toBe('not_applied');
    await link(at(world, 'a'), at(world, 'b'));
    expect(await verify()).toBe('not_applied');
    expect(await world.apply('fs_rename', proposal)).toMatchObject({ ok: true });
    expect(await readdir(world.granted)).toEqual(['b']);
    expect(await verify()).toBe('applied');
    await writeFile(at(world, 'a'), 'one');
    expect(await verify()).toBe('unknown');
    expect((await lstat(at(world, 'b'))).nlink).toBe(1);
  });
});

describe('fs_mkdir', () => {
  it('makes a folder and those above, and nothing the second time', async () => {
    const world = await newWorld();
    const proposal = await world.proposed('fs_mkdir', { path: 'a/b/c' });
    expect(proposal).toMatchObject({
      kind: 'file_write',
      summary: `Make the folder ${at(world, 'a/b/c')}.`,
      risk: 'low',
    });
    for (let time = 0; time < 2; time++)
      expect(await world.apply('fs_mkdir', proposal)).toMatchObject({ ok: true });
    await writeFile(at(world, 'a/b/c/x'), 'x');
    expect(await world.apply('fs_mkdir', proposal)).toMatchObject({
      ok: true,
      output: `Created the folder ${at(world, 'a/b/c')}.`,
    });
    expect(await readFile(at(world, 'a/b/c/x'), 'utf8')).toBe('x');
  });

  it('refuses what is there, and what no folder can be', async () => {
    const world = await newWorld();
    await mkdir(at(world, 'a'));
    await writeFile(at(world, 'file'), 'x');
    await symlink(world.outside, at(world, 'out'));
    for (const [path, output] of [
      ['a', 'a is a folder already.'],
      ['.', '. is a folder already.'],
      ['file', 'file exists already, and is no folder.'],
      ['file/b', 'file/b: a part of the path is no folder.'],
      ['out/b', expect.stringContaining('outside of the paths') as string],
      [`new/${'x'.repeat(300)}`, expect.stringContaining('too long') as string],
    ])
      expect(await world.propose('fs_mkdir', { path })).toMatchObject({ ok: false, output });
  });

  it('is not made where something else is by then', async () => {
    const world = await newWorld();
    const proposal = await world.proposed('fs_mkdir', { path: 'a/b' });
    await writeFile(at(world, 'a'), 'x');
    await expect(world.apply('fs_mkdir', proposal)).rejects.toMatchObject({ code: 'base_moved' });
    await rm(at(world, 'a'));
    await symlink(world.outside, at(world, 'a'));
    await expect(world.apply('fs_mkdir', proposal)).rejects.toMatchObject({ code: 'base_moved' });
    expect(await readdir(world.outside)).toEqual([]);
  });
});
