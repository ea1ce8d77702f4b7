import { mkdir, readFile, readdir, rename, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { Bubblewrap } from '../../src/agent/tools/sandbox/bubblewrap.ts';
import { toolWorlds } from '../support/agent-tools.ts';

const newWorld = toolWorlds();
const found = await Bubblewrap.probe();

/** A host whose data lie within a writable folder of an agent, such as a home folder. */
async function home() {
  const { granted } = await newWorld();
  const data = join(granted, 'local', 'share', 'host');
  await mkdir(data, { recursive: true });
  await writeFile(join(data, 'token'), 'the secret');
  const world = await newWorld({ sandbox: found, forbidden: [data] });
  const context = world.context({ write: [granted] });
  const shell = async (script: string) => {
    const argv = ['sh', '-c', script];
    return await world.apply(
      'run_command',
      await world.proposed('run_command', { argv, cwd: granted }, context),
    );
  };
  return { ...world, granted, data, world, context, shell };
}

describe("the host's data within a granted folder", () => {
  it('stay closed to file tools when they are moved or replaced by a decoy', async () => {
    const { granted, data, world, context } = await home();
    await rename(join(granted, 'local'), join(granted, 'moved'));
    const path = join(granted, 'moved', 'share', 'host', 'token');
    const refused = { ok: false, output: expect.stringContaining('belongs to the host itself') as string };
    expect(await world.run('fs_read', { path }, context)).toMatchObject(refused);
    await mkdir(data, { recursive: true });
    expect(await world.run('fs_read', { path }, context)).toMatchObject(refused);
    expect((await world.run('fs_search', { path: granted, query: 'secret' }, context)).output).not.toContain(
      'the secret',
    );
  });

  const sandboxed = it.skipIf(typeof found === 'string');
  sandboxed('cannot be moved by a command, nor what they lie in', async () => {
    const { granted, data, shell } = await home();
    const script = `mv local moved; mv local/share local/x; mv ${data} y; rm -rf local; ls; find . -name token; cat local/share/host/token`;
    expect((await shell(script)).output).not.toContain('the secret');
    expect(await readdir(granted)).toContain('local');
    expect(await readdir(join(granted, 'local'))).toEqual(['share']);
    expect(await readFile(join(data, 'token'), 'utf8')).toBe('the secret');
    // All else in these folders is as writable as ever.
    expect(await shell('mkdir local/mine && echo x > local/share/mine && mv local/mine kept')).toMatchObject({
      ok: true,
    });
    expect(await readFile(join(granted, 'local', 'share', 'mine'), 'utf8')).toBe('x\n');
  });

  sandboxed('are seen under no other name that was granted', async () => {
    const { granted, data, folder, world } = await home();
    await symlink(granted, join(folder, 'again'));
    await symlink(data, join(folder, 'within'));
    const links = [join(folder, 'again'), join(folder, 'within')];
    for (const grants of [{ write: links }, { write: [], read: ['/usr', ...links] }, { write: ['/'] }]) {
      const argv = [
        'sh',
        '-c',
        `cat ${links[0]}/local/share/host/token ${links[1]}/token ${data}/token; mv ${links[0]}/local ${links[0]}/x`,
      ];
      const proposal = await world.proposed(
        'run_command',
        { argv, cwd: '/usr' },
        world.context({ read: ['/usr'], ...grants }),
      );
      expect((await world.apply('run_command', proposal)).output).not.toContain('the secret');
      expect(await readdir(granted)).toEqual(['local']);
    }
  });

  sandboxed('let no command run when they are not where they were', async () => {
    const { granted, data, shell } = await home();
    await rename(join(granted, 'local'), join(granted, 'moved'));
    const refused = { ok: false, output: expect.stringContaining('not where they were') as string };
    expect(await shell('cat moved/share/host/token')).toMatchObject(refused);
    await mkdir(data, { recursive: true });
    expect(await shell('cat moved/share/host/token')).toMatchObject(refused);
  });
});
