import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import process from 'node:process';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { entryPath, freshDataDir, type HostProcess, repository, startSource } from '../support/host.ts';
import { until } from '../support/until.ts';
import { runsRest } from '../support/tier.ts';

const tool = entryPath('observe');

let dataDir: string;
let host: HostProcess;
let url: string;
const started: ReturnType<typeof launch>[] = [];

const startHost = async () => {
  host = startSource(['--port', '0'], { LATHE_DATA_DIR: dataDir });
  url = await host.url();
};
beforeAll(async () => {
  dataDir = freshDataDir();
  await startHost();
});
afterAll(async () => {
  for (const { child } of started) child.kill('SIGKILL');
  await host.end();
  rmSync(dataDir, { recursive: true });
});

/** The tool on the data directory, which is where it looks by itself. */
function launch(args: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const { FORCE_COLOR: _, LATHE_URL: __, LATHE_TOKEN: ___, ...rest } = process.env;
  const child = spawn(process.execPath, [tool, ...args], {
    cwd: repository,
    env: { ...rest, LATHE_DATA_DIR: dataDir, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const output = { stdout: '', stderr: '' };
  for (const stream of ['stdout', 'stderr'] as const)
    child[stream].setEncoding('utf8').on('data', (text: string) => (output[stream] += text));
  const exit = new Promise<number | null>((resolve) => child.on('close', resolve));
  return { child, output, exit };
}
async function run(args: readonly string[], env?: Readonly<Record<string, string>>) {
  const one = launch(args, env);
  started.push(one);
  const code = await one.exit;
  return { code, ...one.output };
}

/** Without a model it is refused, which is a row too. */
const ask = async (model: string) =>
  await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model, messages: [{ role: 'user', content: 'hi' }] }),
  });
/** Models of the stored requests, the latest first. */
const models = async (...args: string[]) => {
  const { stdout, stderr } = await run([
    'query',
    'completions',
    '--select',
    'requested_model',
    '--json',
    ...args,
  ]);
  if (stdout === '') throw new Error(stderr);
  return (JSON.parse(stdout) as { rows: string[][] }).rows.map(([model]) => model);
};

const photograph = (folder: string): string[] =>
  [folder, ...readdirSync(folder, { recursive: true }).map((name) => join(folder, String(name)))]
    .sort()
    .map((path) => {
      const { mtimeNs, mode, size } = statSync(path, { bigint: true });
      const digest = statSync(path).isDirectory()
        ? ''
        : createHash('sha256').update(readFileSync(path)).digest('hex');
      return [path, mtimeNs, mode, size, digest].join(' ');
    });

describe('beside a host that runs', () => {
  test('it asks that host, by what lies in the data directory', async () => {
    await ask('first');
    await expect.poll(() => models('--url', url)).toEqual(['first']);
    const table = await run(['query', 'completions', '--url', url, '--select', 'requested_model,status']);
    expect(table).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^requested_model  status\nfirst +503\n1 row of 1, from /),
    });
    // The address is known, the host is the one that has the directory.
    const found = await run(['query', 'completions', '--data-dir', dataDir], { LATHE_URL: url });
    expect(found).toMatchObject({ code: 0, stdout: expect.stringContaining('first') });
  });

  test('all pages follow one another, and a page says that there is more', async () => {
    for (const model of ['a', 'b', 'c', 'd']) await ask(model);
    const all = ['d', 'c', 'b', 'a', 'first'];
    await expect.poll(() => models('--url', url)).toEqual(all);
    const page = ['query', 'completions', '--url', url, '--select', 'requested_model', '--limit', '2'];
    expect((await run(page)).stdout).toContain('2 rows of 5');
    expect((await run(page)).stdout).toContain('there are more rows: use --all');
    const paged = (await run([...page, '--all', '--json'])).stdout.trim().split('\n');
    const rows = paged.map((line) => (JSON.parse(line) as { rows: string[][] }).rows.map(([model]) => model));
    expect(rows).toEqual([['d', 'c'], ['b', 'a'], ['first']]);
    const shown = (await run([...page, '--all'])).stdout.split('\n');
    expect(shown.slice(0, 6).map((line) => line.trim())).toEqual(['requested_model', ...all]);
  });

  test('a query in a file, a question, a schema, what there is', async () => {
    const file = join(dataDir, 'q.json');
    writeFileSync(file, JSON.stringify({ surface: 'completions', aggregate: [{ fn: 'count' }] }));
    expect((await run(['query', '--file', file, '--url', url])).stdout).toMatch(
      /^count\n +5\n1 group of 5 rows/,
    );
    rmSync(file);
    expect((await run(['ask', 'errors_by_wire', '--url', url, '--param', 'since=-1h'])).stdout).toMatch(
      /chat +failed +503 +no_resident_model +5/,
    );
    expect((await run(['schema', 'acts', '--url', url])).stdout).toMatch(/^acts: .*\n.*\n\ncolumn +type/);
    const { stdout } = await run(['surfaces', '--url', url]);
    for (const name of ['completions', 'transcript', 'errors_by_wire [since] [wire]'])
      expect(stdout).toContain(name);
  });

  test('faults end with 2, all at once; refusals with 1', async () => {
    const at = ['--url', url];
    const wrong = await run([
      'query',
      'completions',
      '--where',
      'wir eq x',
      '--where',
      'total_ms gt x',
      ...at,
    ]);
    expect(wrong).toEqual({
      code: 2,
      stdout: '',
      stderr: [
        "lathe observe: --where 'wir eq x': 'wir' is not a column of completions (did you mean 'wire'?)",
        "lathe observe: --where 'total_ms gt x': expected a number",
        'See: node dist/observe.js --help\n',
      ].join('\n'),
    });
    const unknown = await run(['query', 'completion', '--json', ...at]);
    expect(unknown).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("did you mean 'completions'?"),
    });
    expect(JSON.parse(unknown.stdout)).toMatchObject({ error: { code: 'unknown_surface' } });
    const token = join(dataDir, 'wrong.token');
    writeFileSync(token, 'not-the-bearer-of-this-host\n');
    const refused = await run(['surfaces', ...at, '--bearer-token-file', token]);
    rmSync(token);
    expect(refused).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/This needs the host's bearer token.*--bearer-token-file FILE/),
    });
    const gone = createServer().listen(0, '127.0.0.1');
    await new Promise((go) => gone.once('listening', go));
    const { port } = gone.address() as AddressInfo;
    await new Promise((go) => gone.close(go));
    const away = await run(['surfaces', '--url', `http://127.0.0.1:${port}`]);
    expect(away).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('no host is listening at http://127.0.0.1:'),
    });
  });

  test('when another server is at the address, it says so and does not send its token', async () => {
    const authorizations: (string | undefined)[] = [];
    const other = createServer((request, response) => {
      authorizations.push(request.headers.authorization);
      response.setHeader('content-type', 'application/json').end('{"endpoint_id":"another"}');
    }).listen(0, '127.0.0.1');
    await new Promise((go) => other.once('listening', go));
    const address = `http://127.0.0.1:${(other.address() as AddressInfo).port}`;
    const lost = await run(['query', 'acts', '--data-dir', dataDir], { LATHE_URL: address });
    await new Promise((go) => other.close(go));
    expect(lost.code).toBe(1);
    expect(lost.stderr).toMatch(
      /^lathe observe: a host \(process \d+\) runs on the data directory .* the host at .* is another one: name its address with --url\n$/,
    );
    expect(authorizations).toEqual([undefined]);
    const away = await run(['query', 'acts', '--data-dir', dataDir], { LATHE_URL: address });
    expect(away).toMatchObject({
      code: 1,
      stderr: expect.stringContaining(`it does not listen at ${address}`),
    });
  });

  test('who reads it may leave', async () => {
    const one = launch(['tail', 'completions', '--url', url, '--last', '5', '--every', '100ms']);
    started.push(one);
    one.child.stdout.once('data', () => one.child.stdout.destroy());
    const knocking = setInterval(() => void ask('again').catch(() => undefined), 200);
    const code = await one.exit;
    clearInterval(knocking);
    expect({ code, stderr: one.output.stderr }).toEqual({ code: 0, stderr: '' });
  });
});

describe('tail', () => {
  test('shows each row once, also across a restart of the host, and ends with Ctrl-C', async () => {
    const at = new URL(url).port;
    const one = launch([
      'tail',
      'completions',
      '--url',
      url,
      '--json',
      '--select',
      'requested_model',
      '--every',
      '100ms',
    ]);
    started.push(one);
    const shown = () =>
      one.output.stdout
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => (JSON.parse(line) as { requested_model: string }).requested_model)
        // Requests of the tests before may still come in.
        .filter((model) => /^t\d+$/.test(model));
    // Nothing tells that it has begun: what comes from here on counts from its first row on.
    let n = 0;
    const knock = async () => (await ask(`t${n++}`), n);
    while (shown().length === 0) {
      await knock();
      await new Promise((go) => setTimeout(go, 100));
    }
    for (let more = 0; more < 20; more++) await knock();
    const first = Number(shown()[0]?.slice(1));
    const expected = () => Array.from({ length: n - first }, (_, k) => `t${first + k}`);
    await until(() => shown().length >= expected().length);
    host.kill('SIGTERM');
    await host.exit;
    await until(() => one.output.stderr.includes('retrying'));
    host = startSource(['--port', at], { LATHE_DATA_DIR: dataDir });
    url = await host.url();
    for (let more = 0; more < 5; more++) await knock();
    await until(() => shown().length >= expected().length);
    await new Promise((go) => setTimeout(go, 1500));
    expect(shown()).toEqual(expected());
    one.child.kill('SIGINT');
    expect(await one.exit).toBe(0);
    expect(one.output.stderr).toContain('connected again');
  });
});

describe('on the data directory of a host that is not running', () => {
  const both = async () => {
    const before = photograph(dataDir);
    const latest = (await models('--limit', '3')).length;
    const table = await run(['ask', 'errors_by_wire']);
    const tail = launch(['tail', 'completions', '--last', '2', '--select', 'requested_model']);
    started.push(tail);
    await until(() => tail.output.stdout.split('\n').length > 3);
    tail.child.kill('SIGINT');
    expect(await tail.exit).toBe(0);
    const racks = await run(['query', 'transcript']);
    expect(photograph(dataDir)).toEqual(before);
    return { latest, table, racks };
  };

  test('it reads what is there and changes nothing', async () => {
    host.kill('SIGTERM');
    await host.exit;
    expect(readdirSync(dataDir)).not.toContain('lathe.db-wal');
    const { latest, table, racks } = await both();
    expect(latest).toBe(3);
    expect(table).toMatchObject({ code: 0, stdout: expect.stringContaining('no_resident_model') });
    expect(racks.stdout).toContain('warning: no host is running, so this read is not recorded');
    expect(racks.stdout).toContain('left out: the rack completions: there is no grant to read it');
  });

  test.runIf(runsRest)('also after it was killed', async () => {
    // It may be the only test of the file that runs, or follow the others.
    host.kill('SIGTERM');
    await host.exit;
    await startHost();
    for (const model of ['first', 'second', 'last']) await ask(model);
    await expect.poll(() => models('--url', url, '--limit', '1')).toEqual(['last']);
    host.kill('SIGKILL');
    await host.exit;
    expect(readdirSync(dataDir)).toEqual(
      expect.arrayContaining(['lathe.db-wal', 'lathe.db-shm', 'host.pid']),
    );
    expect(await models('--limit', '1')).toEqual(['last']);
    await both();
  });

  test('another directory without anything is no directory to read', async () => {
    const empty = freshDataDir();
    mkdirSync(join(empty, 'sub'));
    const { code, stderr } = await run(['query', 'acts', '--data-dir', join(empty, 'sub')]);
    expect({ code, stderr }).toEqual({
      code: 1,
      stderr: expect.stringContaining('name the data directory of a host that was started at least once'),
    });
    expect(readdirSync(empty, { recursive: true })).toEqual(['sub']);
    rmSync(empty, { recursive: true });
  });
});
