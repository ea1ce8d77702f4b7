import { Worker } from 'node:worker_threads';
import { mkdir, readFile, readdir, rename, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { Confinement } from '../../src/agent/tools/paths/confinement.ts';
import { absentHash, replaceFile, readWholeFile, withFile } from '../../src/agent/tools/paths/files.ts';
import { PathSwapped } from '../../src/agent/tools/paths/folder.ts';
import { toolWorlds, type ToolWorld } from '../support/agent-tools.ts';
import { runsRest } from '../support/tier.ts';

const newWorld = toolWorlds();
const secret = 'what nobody may read';

/** Swaps two entries as fast as possible. */
const swapper = `
  const { renameSync } = require('node:fs');
  const { workerData, parentPort } = require('node:worker_threads');
  const { name, honest, bent } = workerData;
  parentPort.postMessage('swapping');
  for (;;) {
    try { renameSync(name, honest); renameSync(bent, name); renameSync(name, bent); renameSync(honest, name); } catch {}
  }
`;
const workers: Worker[] = [];
afterEach(async () => {
  await Promise.all(workers.splice(0).map((worker) => worker.terminate()));
});

/** @param name swapped with `bent`, in turns */
async function swapping(name: string, bent: string): Promise<void> {
  const worker = new Worker(swapper, { eval: true, workerData: { name, bent, honest: `${name}.honest` } });
  workers.push(worker);
  await new Promise((resolve) => worker.once('message', resolve));
}

const rounds = runsRest ? 400 : 130;
const writtenRounds = runsRest ? 80 : 27; // each syncs to the disk
const onLinux = describe.skipIf(process.platform !== 'linux');

/** A regular folder with a file and a link to an outside folder, which are swapped. */
async function bentWorld(): Promise<ToolWorld> {
  const world = await newWorld();
  await mkdir(join(world.granted, 'a'));
  await writeFile(join(world.granted, 'a', 'file'), 'honest');
  await writeFile(join(world.outside, 'file'), secret);
  await symlink(world.outside, join(world.granted, 'bent'));
  await swapping(join(world.granted, 'a'), join(world.granted, 'bent'));
  return world;
}

/** On a busy machine, it takes more rounds until the tool finds the folder and not the link once. */
const lasts = (round: number, count: number, successes: number): boolean =>
  round < count || (successes === 0 && round < 100 * count);

onLinux('while a folder and a link to the outside are swapped', () => {
  it('nothing from outside is read, listed or found', async () => {
    const world = await bentWorld();
    let honest = 0;
    for (let round = 0; lasts(round, rounds, honest); round += 1) {
      const read = await world.run('fs_read', { path: 'a/file' });
      expect(read.output).not.toContain(secret);
      if (read.output === 'honest') honest += 1;
      const found = await world.run('fs_search', { path: 'a', query: 'nobody may' });
      expect(found.output).not.toContain(secret);
    }
    // Confirms the race: the regular file was found at times.
    expect(honest).toBeGreaterThan(0);
  });

  it('nothing outside is written, replaced or deleted', async () => {
    const world = await bentWorld();
    let applied = 0;
    for (let round = 0; lasts(round, writtenRounds, applied); round += 1) {
      for (const [tool, args] of [
        ['fs_write', { path: 'a/file', content: `round ${round}` }],
        ['fs_write', { path: 'a/new/file', content: 'new' }],
        ['fs_rename', { path: 'a/file', new_path: 'a/other' }],
        ['fs_rename', { path: 'a/other', new_path: 'a/file' }],
        ['fs_mkdir', { path: 'a/made' }],
        ['fs_delete', { path: 'a/new/file' }],
        ['fs_delete', { path: 'a/new' }],
      ] as const) {
        const proposal = await world.propose(tool, args);
        if ('ok' in proposal) continue;
        expect(proposal.diff ?? '').not.toContain(secret);
        const result = await world.apply(tool, proposal).catch((error: unknown) => error);
        if (result instanceof Error) expect(result).toMatchObject({ code: 'base_moved' });
        else applied += 1;
      }
    }
    expect(await readdir(world.outside)).toEqual(['file']);
    expect(await readFile(join(world.outside, 'file'), 'utf8')).toBe(secret);
    expect(applied).toBeGreaterThan(0);
  });
});

onLinux('while a file and a link to the outside are swapped', () => {
  it('nothing from outside is read, and existing files outside are not written', async () => {
    const world = await newWorld();
    await writeFile(join(world.granted, 'file'), 'honest');
    await writeFile(join(world.outside, 'file'), secret);
    await symlink(join(world.outside, 'file'), join(world.granted, 'bent'));
    await swapping(join(world.granted, 'file'), join(world.granted, 'bent'));
    for (let round = 0; round < writtenRounds; round += 1) {
      expect((await world.run('fs_read', { path: 'file' })).output).not.toContain(secret);
      const proposal = await world.propose('fs_write', { path: 'file', content: `round ${round}` });
      if ('ok' in proposal) continue;
      expect(proposal.diff).not.toContain(secret);
      await world.apply('fs_write', proposal).catch((error: unknown) => {
        expect(error).toMatchObject({ code: 'base_moved' });
      });
    }
    expect(await readFile(join(world.outside, 'file'), 'utf8')).toBe(secret);
  });
});

onLinux('when a folder is swapped for a link to the outside', () => {
  async function swapped() {
    const world = await newWorld();
    const a = join(world.granted, 'a');
    await mkdir(a);
    await writeFile(join(a, 'file'), 'honest');
    await writeFile(join(world.outside, 'file'), secret);
    const swap = async () => {
      await rename(a, join(world.granted, 'moved'));
      await symlink(world.outside, a);
    };
    return { world, confinement: new Confinement([]), swap };
  }
  const signal = new AbortController().signal;

  it('before it is opened, opening fails', async () => {
    const { world, confinement, swap } = await swapped();
    const allowed = await confinement.resolveAllowed('a/file', world.context(), 'write');
    const deep = await confinement.resolveAllowed('a/new/file', world.context(), 'write');
    await swap();
    await expect(confinement.openParent(allowed)).rejects.toBeInstanceOf(PathSwapped);
    await expect(confinement.openParent(deep, true)).rejects.toBeInstanceOf(PathSwapped);
    expect(await readdir(world.outside)).toEqual(['file']);
  });

  it('after it was opened, the opened folder is used', async () => {
    const { world, confinement, swap } = await swapped();
    const allowed = await confinement.resolveAllowed('a/new', world.context(), 'write');
    const folder = await confinement.openParent(allowed);
    try {
      await swap();
      const read = await withFile(folder, 'file', (file) => readWholeFile(file, 'file', 100, signal));
      expect(String(read)).toBe('honest');
      await replaceFile(folder, 'new', Buffer.from('new'), absentHash, signal);
      await (await folder.openOrCreateFolder('below')).close();
    } finally {
      await folder.close();
    }
    expect(await readdir(world.outside)).toEqual(['file']);
    expect((await readdir(join(world.granted, 'moved'))).sort()).toEqual(['below', 'file', 'new']);
  });
});
