import { execFileSync } from 'node:child_process';
import { link, mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises';
import net from 'node:net';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { toolWorlds } from '../support/agent-tools.ts';

const newWorld = toolWorlds();
const secret = 'what nobody may read';

describe('paths of arguments', () => {
  it('are relative to the working folder, or absolute', async () => {
    const world = await newWorld();
    await writeFile(join(world.granted, 'a.txt'), 'here');
    for (const path of ['a.txt', './a.txt', join(world.granted, 'a.txt'), `../granted/a.txt`])
      expect(await world.run('fs_read', { path })).toEqual({ ok: true, output: 'here', truncated: false });
    expect(
      await world.run('fs_read', { path: 'a.txt' }, { ...world.context(), cwd: undefined }),
    ).toMatchObject({
      ok: false,
      output: 'a.txt is relative, and there is no working folder; give an absolute path.',
    });
  });

  it('cannot leave the grants, and disclose nothing about what exists outside', async () => {
    const world = await newWorld();
    await writeFile(join(world.outside, 'secret'), secret);
    await symlink(world.outside, join(world.granted, 'door'));
    await symlink(join(world.outside, 'secret'), join(world.granted, 'window'));
    await symlink('/', join(world.granted, 'root'));
    await mkdir(join(world.granted, 'sub'));
    const paths = [
      '../outside/secret',
      '../outside/nothing',
      '../outside/secret/below',
      join(world.outside, 'secret'),
      join(world.outside, 'nothing', 'at', 'all'),
      'door/secret',
      'door/nothing',
      'window',
      'root/etc/passwd',
      'sub/../../outside/secret',
      'door/../outside/secret',
      `${world.granted}x/secret`,
      '/etc/passwd',
      '/',
      '..',
      '/proc/self/environ',
      `/proc/self/cwd`,
      `/proc/self/root${world.outside}/secret`,
    ];
    for (const path of paths) {
      const read = await world.run('fs_read', { path });
      expect(read, path).toEqual({
        ok: false,
        output: `${path} is outside of the paths that this agent was granted for reading.`,
        truncated: false,
      });
      for (const tool of ['fs_list', 'fs_search'])
        expect((await world.run(tool, { path, query: 'nobody' })).ok, `${tool} ${path}`).toBe(false);
      expect(await world.propose('fs_write', { path, content: 'x' }), path).toMatchObject({ ok: false });
      expect(await world.propose('fs_delete', { path: `${path}/x` }), path).toMatchObject({ ok: false });
    }
  });

  it('are refused when empty, with NUL characters and with lone surrogates', async () => {
    const world = await newWorld();
    for (const path of ['', 'a\0b', 'a\ud800'])
      expect(await world.run('fs_read', { path })).toMatchObject({
        ok: false,
        output: expect.stringContaining('expected a path without NUL characters'),
      });
  });

  it('through links between grants count as their targets', async () => {
    const world = await newWorld();
    await writeFile(join(world.shown, 'b.txt'), 'shown');
    await symlink(join(world.shown, 'b.txt'), join(world.granted, 'link'));
    expect(await world.run('fs_read', { path: 'link' })).toMatchObject({ ok: true, output: 'shown' });
    expect(await world.propose('fs_write', { path: 'link', content: 'x' })).toMatchObject({
      ok: false,
      output: 'link is outside of the paths that this agent was granted for writing.',
    });
  });

  it('with link cycles are refused', async () => {
    const world = await newWorld();
    await symlink('two', join(world.granted, 'one'));
    await symlink('one', join(world.granted, 'two'));
    expect(await world.run('fs_read', { path: 'one' })).toMatchObject({
      ok: false,
      output: 'one: its links go in circles.',
    });
  });

  it('never escape the grants, whatever their parts', async () => {
    const world = await newWorld();
    await writeFile(join(world.outside, 'secret'), secret);
    await mkdir(join(world.granted, 'a', 'b'), { recursive: true });
    await symlink('../..', join(world.granted, 'a', 'up'));
    await symlink(world.outside, join(world.granted, 'a', 'b', 'door'));
    await symlink('b/door', join(world.granted, 'a', 'twice'));
    const part = fc.constantFrom(
      '..',
      '.',
      '',
      'a',
      'b',
      'up',
      'door',
      'twice',
      'granted',
      'outside',
      'secret',
      'shown',
      world.folder,
    );
    await fc.assert(
      fc.asyncProperty(fc.array(part, { maxLength: 9 }), fc.boolean(), async (parts, absolute) => {
        const path = (absolute ? `${world.folder}/` : '') + parts.join('/');
        const outputs = await Promise.all([
          world.run('fs_read', { path }),
          world.run('fs_search', { path, query: 'nobody' }),
          world.run('fs_list', { path, depth: 8 }),
        ]);
        for (const { output } of outputs) {
          expect(output).not.toContain(secret);
          // A link shows where it points; nothing of what is there is listed.
          expect(output.replaceAll(path, '')).not.toMatch(/^(?!.* -> ).*\bsecret$/m);
        }
        const proposal = await world.propose('fs_write', { path, content: 'x' });
        if (!('ok' in proposal)) expect(proposal.path?.startsWith(`${world.granted}/`)).toBe(true);
      }),
      { numRuns: 300 },
    );
  });

  it('to devices, pipes and sockets are refused without opening them', async () => {
    const world = await newWorld();
    execFileSync('sh', ['-c', 'mkfifo "$0"', join(world.granted, 'pipe')]);
    const server = net.createServer().listen(join(world.granted, 'socket'));
    await new Promise((resolve) => server.once('listening', resolve));
    try {
      for (const path of ['pipe', 'socket']) {
        expect(await world.run('fs_read', { path })).toMatchObject({
          ok: false,
          output: expect.stringContaining('no regular file but a device, a pipe or a socket'),
        });
        for (const tool of ['fs_write', 'fs_edit', 'fs_delete'])
          expect(await world.propose(tool, { path, content: 'x', edits: [] })).toMatchObject({ ok: false });
      }
      const devices = world.context({ read: ['/dev'] });
      for (const path of ['/dev/zero', '/dev/null', '/dev/tty', '/dev/random'])
        expect(await world.run('fs_read', { path }, devices)).toMatchObject({ ok: false });
      const listed = (await world.run('fs_list', { path: '.' })).output;
      expect(listed).toBe('pipe [device, pipe or socket]\nsocket [device, pipe or socket]');
      expect(await world.run('fs_search', { query: 'x' })).toMatchObject({
        ok: true,
        output: '[no matches]',
      });
    } finally {
      await new Promise((resolve) => server.close(resolve));
    }
  });

  it("to the host's own data are refused, also under another name", async () => {
    const first = await newWorld();
    const data = join(first.granted, 'data');
    await mkdir(data);
    await writeFile(join(data, 'operator.token'), secret);
    const world = await newWorld({ forbidden: [data] });
    const within = { ...world.context({ read: [], write: [first.granted] }), cwd: first.granted };
    for (const path of ['data/operator.token', 'data', join(data, 'new')]) {
      expect(await world.run('fs_read', { path }, within)).toMatchObject({
        ok: false,
        output: `${path} belongs to the host itself; no agent may reach it.`,
      });
      expect(await world.propose('fs_write', { path, content: 'x' }, within)).toMatchObject({ ok: false });
    }
    await rename(data, join(first.granted, 'renamed'));
    await mkdir(data); // the ids are of what the path holds now, so both are seen
    await rm(data, { recursive: true });
    await rename(join(first.granted, 'renamed'), data);
    await mkdir(join(first.granted, 'deep'));
    await symlink(data, join(first.granted, 'deep', 'link'));
    expect((await world.run('fs_read', { path: 'deep/link/operator.token' }, within)).ok).toBe(false);
    const search = await world.run('fs_search', { query: 'nobody' }, within);
    const list = await world.run('fs_list', { path: '.', depth: 8 }, within);
    expect(search.output + list.output).not.toContain('operator.token');
  });

  it('to the environment and memory of the host are refused, even if everything is granted', async () => {
    const world = await newWorld();
    const all = world.context({ read: ['/'] });
    for (const path of ['/proc/self/environ', '/proc/self/mem', `/proc/${process.pid}/environ`, '/proc'])
      expect((await world.run('fs_read', { path }, all)).ok, path).toBe(false);
    expect((await world.run('fs_list', { path: '/proc' }, all)).ok).toBe(false);
    expect((await world.run('fs_list', { path: '/' }, all)).ok).toBe(true);
  });

  it('are not granted by a grant that an agent could have redirected', async () => {
    const world = await newWorld();
    await writeFile(join(world.outside, 'secret'), secret);
    await symlink(world.outside, join(world.granted, 'sub'));
    await symlink(join(world.granted, 'sub'), join(world.shown, 'far'));
    const grants = { write: [world.granted, join(world.granted, 'sub')], read: [join(world.shown, 'far')] };
    for (const path of ['sub/secret', join(world.outside, 'secret'), join(world.shown, 'far', 'secret')])
      expect((await world.run('fs_read', { path }, world.context(grants))).ok, path).toBe(false);
  });

  it('of hard links belong to the folder that they are in', async () => {
    const world = await newWorld();
    await writeFile(join(world.outside, 'kept'), 'first');
    await link(join(world.outside, 'kept'), join(world.granted, 'twin'));
    const proposal = await world.proposed('fs_write', { path: 'twin', content: 'second' });
    await world.apply('fs_write', proposal);
    // What is outside is not written through the link.
    const seen = await world.run(
      'fs_read',
      { path: join(world.outside, 'kept') },
      world.context({ read: [world.outside] }),
    );
    expect(seen.output).toBe('first');
  });

  it('of an agent without grants are refused with that reason', async () => {
    const world = await newWorld();
    expect(await world.run('fs_list', { path: '.' }, world.context({ read: [], write: [] }))).toMatchObject({
      ok: false,
      output: '.: this agent was granted no paths, so it reads and writes no files.',
    });
  });
});
