import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { kernelDigest, programDigest } from '../../src/lab/digest.ts';
import { Quarantine } from '../../src/lab/quarantine.ts';
import type { KernelRegistration } from '../../src/lab/types.ts';

const good = { digest: 'sha256:1', name: 'good' };
const bad = { digest: 'sha256:2', name: 'bad' };

let folder: string;
let blamed: string[];
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'lathe-quarantine-'));
  blamed = [];
});
afterEach(async () => {
  vi.useRealTimers();
  await rm(folder, { recursive: true });
});

/** Simulates the next start of the host. */
const start = () => Quarantine.open(folder, (name, reason) => blamed.push(`${name}: ${reason}`));

describe('kernels that were bound when the process died', () => {
  it('are quarantined by digest at the next start, permanently', async () => {
    await (await start()).arm([bad]);
    const next = await start();
    expect(blamed).toEqual(['bad: the host crashed soon after it was bound']);
    expect(next.reasonFor(bad)).toContain('crashed soon');
    expect(next.reasonFor(good)).toBeUndefined();
    blamed = [];
    expect((await start()).reasonFor(bad)).toContain('crashed soon');
    expect(blamed).toEqual([]);
  });

  it('are not quarantined after a clean shutdown or if they were unbound before', async () => {
    const first = await start();
    await first.arm([bad]);
    await first.disarm();
    expect((await start()).reasonFor(bad)).toBeUndefined();
  });

  it('are not quarantined for one crash after they ran for a minute, but for three in a row', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const first = await start();
    await first.arm([good]);
    await vi.advanceTimersByTimeAsync(61_000);
    vi.useRealTimers();
    // The write after the timer takes real file system time.
    await expect.poll(() => readFile(join(folder, 'lab', 'armed.json'), 'utf8')).toContain('"proven": true');
    for (let end = 0; end < 2; end++) {
      const next = await start();
      expect(next.reasonFor(good)).toBeUndefined();
      await next.arm([good]);
    }
    expect((await start()).reasonFor(good)).toContain('3 times in a row');
  });

  it('are all quarantined if several were bound', async () => {
    await (await start()).arm([good, bad]);
    await start();
    expect(blamed).toHaveLength(2);
  });
});

it('a kernel with other comments, white space or names is the same kernel, also one of an earlier version', async () => {
  const registered = (source: string, more: Partial<KernelRegistration> = {}) => {
    const registration = { name: 'spin', op: 'rms_norm', source, dispatch: { x: 'tokens' }, ...more };
    return { name: 'spin', digest: kernelDigest(registration), program: programDigest(registration) };
  };
  const source = 'fn main() { /* a */ let a = 1u; // b\n}';
  const [kernel, changed] = [registered(source), registered('// c\nfn main()\n{\tlet a=1u;}/**/')];
  expect(changed.digest).not.toBe(kernel.digest);
  await (await start()).add([kernel], 'the device was lost');
  const next = await start();
  for (const same of [
    changed,
    registered('fn main() { let other = 1u; }'),
    registered('fn go() { let a = 1u; }', { entry_point: 'go' }),
  ])
    expect(next.reasonFor(same)).toBe('the device was lost');
  for (const other of [
    registered(source.replace('1u', '2u')),
    registered(source.replace('let a', 'leta')),
    registered(source, { dispatch: { x: 'tokens', y: '2' } }),
    registered(source, { overrides: { WG: 64 } }),
  ])
    expect(next.reasonFor(other)).toBeUndefined();
  const { program: _, ...early } = kernel;
  await (await start()).add([early], 'an earlier version wrote this');
  expect((await start()).reasonFor({ ...kernel, program: 'sha256:other' })).toBe(
    'an earlier version wrote this',
  );
});

it('a kernel that lost the device is remembered', async () => {
  await (await start()).add([bad], 'the device was lost');
  expect((await start()).reasonFor(bad)).toBe('the device was lost');
});

it('damaged files are ignored', async () => {
  await mkdir(join(folder, 'lab'));
  await writeFile(join(folder, 'lab', 'armed.json'), '{"kernels"');
  await writeFile(join(folder, 'lab', 'quarantine.json'), '{}');
  expect((await start()).reasonFor(bad)).toBeUndefined();
  await writeFile(join(folder, 'lab', 'armed.json'), '{"kernels":[null,{"digest":1}],"proven":"x"}');
  await writeFile(join(folder, 'lab', 'quarantine.json'), '[null,7,{"digest":5}]');
  expect((await start()).reasonFor(bad)).toBeUndefined();
  expect(blamed).toEqual([]);
});

it('a read-only folder does not prevent the start; binding fails with the reason', async () => {
  await writeFile(join(folder, 'lab'), 'a file');
  const quarantine = await start();
  const path = join(folder, 'lab', 'armed.json');
  await expect(quarantine.arm([bad])).rejects.toMatchObject({
    code: 'lab_failed',
    message: expect.stringContaining(`${path} cannot be written`) as string,
  });
  await quarantine.disarm();
});

it('kernels that another running host has bound are not quarantined', async () => {
  await (await start()).arm([bad]);
  const path = join(folder, 'lab', 'armed.json');
  const armed = JSON.parse(await readFile(path, 'utf8')) as object;
  await writeFile(path, JSON.stringify({ ...armed, pid: process.ppid }));
  expect((await start()).reasonFor(bad)).toBeUndefined();
  expect(blamed).toEqual([]);
});
