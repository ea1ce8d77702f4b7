import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmodSync, cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { lockHolder, lockDataDir } from '../../src/cli/data-dir-lock.ts';
import { offlineSource } from '../../src/observe-tool/offline-source.ts';
import { Recorder } from '../../src/recorder/recorder.ts';
import { Store } from '../../src/store/index.ts';
import { observeWorker } from '../support/observe-host.ts';
import { entryPath, repository } from '../support/host.ts';

let dataDir: string;
let database: string;

beforeEach(async () => {
  dataDir = mkdtempSync(join(tmpdir(), 'lathe-stopped-'));
  database = join(dataDir, 'lathe.db');
  await (await Store.open({ url: `sqlite:${database}`, endpointId: 'here' })).close();
});
afterEach(() => {
  for (const folder of [dataDir, join(dataDir, 'recorder')])
    if (statSync(folder, { throwIfNoEntry: false })) chmodSync(folder, 0o700);
  rmSync(dataDir, { recursive: true });
});

/** Every file with its contents, and when it and its folder were last changed. */
const photograph = (folder = dataDir): string[] =>
  [folder, ...readdirSync(folder, { recursive: true }).map((name) => join(folder, String(name)))]
    .sort()
    .map((path) => {
      const { mtimeNs, mode, size, ino } = statSync(path, { bigint: true });
      const digest = statSync(path).isDirectory()
        ? ''
        : createHash('sha256').update(readFileSync(path)).digest('hex');
      return [path, mtimeNs, mode, size, ino, digest].join(' ');
    });

const count = (from: string) => `sqlite:${from}`;
async function actsIn(url = count(database)): Promise<number> {
  const source = await offlineSource({ database: url, dataDir, worker: observeWorker });
  try {
    const { document } = await source.query({ surface: 'acts', aggregate: [{ fn: 'count' }] });
    return Number(document.rows[0]?.[0]);
  } finally {
    await source.close();
  }
}

const act = 'insert into acts (seq, at, endpoint_id, verb, target, "by", outcome) values';
/** Writes and is killed: the log and the file beside it stay behind. */
function writeAndDie(acts: number): void {
  const script = `
    const { DatabaseSync } = await import('node:sqlite');
    const db = new DatabaseSync(${JSON.stringify(database)});
    for (let n = 1; n <= ${acts}; n++)
      db.exec(\`${act} (\${n}, '2026-06-15T10:00:00.000Z', 'here', 'approve', 'p', 'operator', 'applied')\`);
    process.kill(process.pid, 'SIGKILL');`;
  spawnSync(process.execPath, ['--input-type=module', '-e', script], { cwd: repository });
}
const write = (path: string, statement: string) => {
  const db = new DatabaseSync(path, { timeout: 60_000 });
  db.exec(statement);
  db.close();
};

describe('a data directory without a host is read and not changed', () => {
  test('after an orderly end', async () => {
    write(database, `${act} (1, '2026-06-15T10:00:00.000Z', 'here', 'approve', 'p', 'operator', 'applied')`);
    expect(readdirSync(dataDir)).toEqual(['lathe.db']);
    const before = photograph();
    expect(await actsIn()).toBe(1);
    expect(photograph()).toEqual(before);
  });

  test('after a kill, with what is in the log alone', async () => {
    writeAndDie(7);
    expect(readdirSync(dataDir).sort()).toEqual(['lathe.db', 'lathe.db-shm', 'lathe.db-wal']);
    const before = photograph();
    expect(await actsIn()).toBe(7);
    expect(photograph()).toEqual(before);
    // A copy of all of it is as good.
    const copy = join(dataDir, 'copy');
    cpSync(dataDir, `${dataDir}-copy`, { recursive: true });
    cpSync(`${dataDir}-copy`, copy, { recursive: true });
    rmSync(`${dataDir}-copy`, { recursive: true });
    expect(await actsIn(count(join(copy, 'lathe.db')))).toBe(7);
  });

  test('where nothing can be written', async () => {
    writeAndDie(3);
    for (const name of readdirSync(dataDir)) chmodSync(join(dataDir, name), 0o400);
    chmodSync(dataDir, 0o500);
    const before = photograph();
    expect(await actsIn()).toBe(3);
    expect(photograph()).toEqual(before);
  });

  test('a WAL without its shared-memory file is refused, with advice', async () => {
    writeAndDie(3);
    rmSync(`${database}-shm`);
    const before = photograph();
    await expect(actsIn()).rejects.toThrow(/lathe\.db-shm.*start the host once on these files/s);
    expect(photograph()).toEqual(before);
  });

  test('while another process writes, as of now', async () => {
    const source = await offlineSource({ database: count(database), dataDir, worker: observeWorker });
    const counted = async () =>
      (await source.query({ surface: 'acts', aggregate: [{ fn: 'count' }] })).document.rows[0]?.[0];
    expect(await counted()).toBe(0);
    const db = new DatabaseSync(database, { timeout: 60_000 });
    for (let n = 1; n <= 5; n++) {
      db.exec(`${act} (${n}, '2026-06-15T10:00:00.000Z', 'here', 'approve', 'p', 'operator', 'applied')`);
      expect(await counted()).toBe(n);
      if (n === 3) db.exec('pragma wal_checkpoint(truncate)');
    }
    db.close();
    expect(await counted()).toBe(5);
    await source.close();
  });

  test('a missing database is reported, and none is created', async () => {
    rmSync(database);
    await expect(actsIn()).rejects.toThrow(/there is no database at/);
    expect(readdirSync(dataDir)).toEqual([]);
  });
});

describe('the racks of a data directory without a host', () => {
  const folder = () => join(dataDir, 'recorder');
  const transcript = async () => {
    const source = await offlineSource({ database: count(database), dataDir, worker: observeWorker });
    try {
      return (await source.query({ surface: 'transcript', select: ['rack', 'content'] })).document;
    } finally {
      await source.close();
    }
  };
  const recording = async (work: (recorder: Recorder) => Promise<unknown>) => {
    const recorder = await Recorder.open({
      folder: folder(),
      secrets: [],
      worker: entryPath('recorder-worker'),
      onFault: () => undefined,
      onNotice: () => undefined,
    });
    await work(recorder);
    await recorder.close();
  };
  const until = (ms: number) => new Date(Date.now() + ms);

  beforeEach(() =>
    recording(async (recorder) => {
      for (const rack of ['agent', 'completions'] as const) {
        await recorder.change(rack, { armed: true, policy: { content: 'full' } }, 'operator');
        recorder.record(rack, [
          { id: `e-${rack}`, at: '2026-06-15T10:00:00.000Z', kind: 'message', content: rack },
        ]);
      }
      const grant = { verbs: ['read'] as const, to: 'bearer', expiresAt: until(3_600_000) };
      await recorder.grant({ ...grant, rack: 'agent', includesPast: true }, 'operator');
      await recorder.grant({ ...grant, rack: 'gateway', to: 'peer:laptop' }, 'operator');
    }),
  );

  test('are read under active grants without a review entry, with a warning', async () => {
    const before = photograph();
    const { rows, redactions, warnings } = await transcript();
    expect(rows).toEqual([['agent', 'agent']]);
    expect(redactions.map(({ what }) => what)).toEqual([
      'the rack completions',
      'the rack workflows',
      'the rack gateway',
      'the rack external',
    ]);
    expect(warnings.join()).toContain('is not recorded in the review');
    expect(photograph()).toEqual(before);
  });

  test('expired and revoked grants do not apply', async () => {
    write(join(folder(), 'recorder.db'), "update grants set expires_at = '2020-01-01T00:00:00.000Z'");
    expect((await transcript()).rows).toEqual([]);
    write(
      join(folder(), 'recorder.db'),
      "update grants set expires_at = '9999-01-01T00:00:00.000Z', revoked_at = '2020-01-01T00:00:00.000Z'",
    );
    expect((await transcript()).rows).toEqual([]);
  });

  test('a grant shows what came after it, unless it includes the past', async () => {
    write(join(folder(), 'recorder.db'), 'update grants set after_generation = 0, after_seq = 1');
    const { rows, redactions } = await transcript();
    expect(rows).toEqual([]);
    expect(redactions.map(({ what }) => what)).toContain(
      'events recorded in the rack agent before the grant',
    );
  });

  test('events whose purge was interrupted by a kill are not shown', async () => {
    write(
      join(folder(), 'recorder.db'),
      `insert into purges (id, rack, generation, at, "by", found) values ('d1', 'agent', 1, '', 'operator', '{}')`,
    );
    expect((await transcript()).rows).toEqual([]);
  });

  test('are only readable through a running host', async () => {
    const lock = lockDataDir(dataDir);
    try {
      await expect(transcript()).rejects.toThrow(/a host \(process \d+\) runs on the data directory/);
    } finally {
      lock.release();
    }
    expect((await transcript()).rows).toHaveLength(1);
  });
});

describe('whether a host has a data directory', () => {
  const hold = (then: string) =>
    spawnSync(
      process.execPath,
      [
        '--input-type=module',
        '-e',
        `import { lockDataDir } from ${JSON.stringify(join(repository, 'src/cli/data-dir-lock.ts'))};
         const lock = lockDataDir(${JSON.stringify(dataDir)}); ${then}`,
      ],
      { cwd: repository, encoding: 'utf8', timeout: 600_000, killSignal: 'SIGKILL' },
    );

  test('is detected without writing', () => {
    expect(lockHolder(dataDir)).toBeUndefined();
    expect(readdirSync(dataDir)).toEqual(['lathe.db']);
    const lock = lockDataDir(dataDir);
    const held = photograph();
    expect(lockHolder(dataDir)).toBe(` (process ${process.pid})`);
    expect(photograph()).toEqual(held);
    lock.release();
    const free = photograph();
    expect(lockHolder(dataDir)).toBeUndefined();
    expect(photograph()).toEqual(free);
  });

  test('a killed host no longer holds it, even if its process id was reused', () => {
    hold("process.kill(process.pid, 'SIGKILL');");
    const before = photograph();
    expect(readdirSync(dataDir)).toContain('host.pid');
    expect(lockHolder(dataDir)).toBeUndefined();
    expect(photograph()).toEqual(before);
  });

  test('checking does not prevent a start', () => {
    // Another process looks again and again, while this one takes the directory and gives it back.
    lockDataDir(dataDir).release();
    const { stderr, status } = hold(`
      lock.release();
      const { spawn } = await import('node:child_process');
      const looker = spawn(process.execPath, ['--input-type=module', '-e',
        \`import { lockHolder } from ${JSON.stringify(join(repository, 'src/cli/data-dir-lock.ts'))};
         console.log('looking'); for (;;) lockHolder(${JSON.stringify(dataDir)});\`], { stdio: ['ignore', 'pipe', 'inherit'] });
      await new Promise((resolve) => looker.stdout.once('data', resolve));
      try {
        for (let n = 0; n < 300; n++) lockDataDir(${JSON.stringify(dataDir)}).release();
      } finally {
        looker.kill('SIGKILL');
      }`);
    expect({ stderr, status }).toEqual({ stderr: '', status: 0 });
  });
});
