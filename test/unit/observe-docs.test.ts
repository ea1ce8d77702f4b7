import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Readable, Writable } from 'node:stream';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { questions } from '../../src/observe/questions/index.ts';
import { surfaces } from '../../src/observe/surfaces/index.ts';
import type { ObserveEnvelope } from '../../src/observe/types.ts';
import { main } from '../../src/observe-tool/main.ts';
import { describePostgres } from '../support/databases.ts';
import { freshDataDir, repository } from '../support/host.ts';
import { observeWorker, observing, wholeHost } from '../support/observe-host.ts';

const text = readFileSync(join(repository, 'docs/observe.md'), 'utf8');
const blocks = (language: string) =>
  [...text.matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\`$`, 'gms'))].map(([, block = '']) => block);
const commands = blocks('sh')
  .flatMap((block) => block.split('\n'))
  .filter((line) => line.startsWith('node dist/observe.js '));

/** As a shell would: words, and texts in single quotes. */
const wordsOf = (line: string): string[] =>
  [...line.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, word]) => quoted ?? word ?? '').slice(2);

let dataDir: string;
const undo: (() => unknown)[] = [];
beforeAll(async () => {
  dataDir = freshDataDir();
  await wholeHost(await observing(`sqlite:${join(dataDir, 'lathe.db')}`, undo));
  for (const step of undo.splice(0)) await step();
});
afterAll(() => rmSync(dataDir, { recursive: true }));

async function run(args: readonly string[], { stdin = '', over = new AbortController().signal } = {}) {
  const output = { stdout: '', stderr: '' };
  const to = (stream: 'stdout' | 'stderr') =>
    new Writable({
      write(chunk: Buffer, _, done) {
        output[stream] += chunk.toString();
        done();
      },
    });
  const code = await main({
    args,
    env: { LATHE_DATA_DIR: dataDir },
    home: dataDir,
    packageRoot: repository,
    stdin: Readable.from([stdin]),
    stdout: to('stdout'),
    stderr: to('stderr'),
    stopping: over,
    entry: () => observeWorker,
  });
  return { code, ...output };
}

describe('docs/observe.md', () => {
  test('has commands to try', () => expect(commands.length).toBeGreaterThan(25));

  test.each(commands.filter((line) => !line.includes(' tail ')))('%s', async (line) => {
    const shown = await run(wordsOf(line));
    expect(shown).toMatchObject({ code: 0, stderr: '' });
    expect(shown.stdout).not.toBe('');
    if (/ (?:query|ask) /.test(line) && !line.includes('--json'))
      expect((await run([...wordsOf(line), '--json'])).code).toBe(0);
  });

  test.each(commands.filter((line) => line.includes(' tail ')))('%s', async (line) => {
    const over = new AbortController();
    const running = run(wordsOf(line), { over: over.signal });
    setTimeout(() => over.abort(), 500);
    expect(await running).toMatchObject({ code: 0, stderr: '' });
  });

  test('its query is one, from a file and from stdin', async () => {
    const [query = ''] = blocks('json');
    const folder = join(dataDir, 'queries');
    mkdirSync(folder);
    writeFileSync(join(folder, 'q.json'), query);
    const { code, stdout } = await run(['query', '--file', join(folder, 'q.json'), '--json']);
    expect(code).toBe(0);
    expect((JSON.parse(stdout) as ObserveEnvelope).query).toEqual(JSON.parse(query));
    expect((await run(['query', '--file', '-'], { stdin: query })).code).toBe(0);
    expect(await run(['query', 'acts', '--file', '-', '--limit', '3'], { stdin: query })).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/leave 'acts' out\n.*leave --limit out\n/),
    });
  });

  test('names every surface with its time, every question, and every member of an envelope', async () => {
    for (const { name, time } of surfaces)
      expect(text).toMatch(new RegExp(`\\| \`${name}\` .*\\| \`${time}\` +\\|`));
    for (const { name } of questions) expect(text).toContain(`ask ${name}`);
    const { stdout } = await run(['query', 'acts', '--limit', '1', '--json']);
    for (const member of Object.keys(JSON.parse(stdout) as object))
      if (member !== 'contract' && member !== 'surface') expect(text).toMatch(new RegExp(`\`${member}[\`.]`));
  });
});

describePostgres('a database by its address', (url) => {
  test('is read without a host; racks are those of the data directory', async () => {
    const database = await url();
    await wholeHost(await observing(database, undo));
    for (const step of undo.splice(0)) await step();
    const own = (...args: string[]) =>
      run([...args, '--database', database, '--data-dir', join(dataDir, 'none')]);
    expect(await own('query', 'tasks', '--select', 'id,state', '--order-by', 'id')).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^id  state\nt1  completed\nt2  failed\n2 rows of 2, /),
    });
    expect(await own('query', 'transcript')).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('left out'),
    });
    const secret = await run(['query', 'tasks', '--database', 'postgres://me:hidden@127.0.0.1:1/none']);
    expect(secret.code).toBe(1);
    expect(secret.stderr).not.toContain('hidden');
    expect(await run(['surfaces', '--database', 'mysql://me:hidden@x', '--url', 'ftp://x'])).toEqual({
      code: 2,
      stdout: '',
      stderr: expect.stringMatching(
        /^.*--url: expected.*\n.*exclude each other.*\n.*--database: expected.*\nSee: .*\n$/,
      ),
    });
  });
});
