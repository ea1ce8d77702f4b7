import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import { text as textOf } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { main } from '../../src/lab-tool/main.ts';
import { config, type FakeLab, fakeLab, refusal, stubSource } from '../support/fake-lab-host.ts';
import { entryPath, repository } from '../support/host.ts';

const entry = entryPath('lab');
let lab: FakeLab;
let folder: string;
const started: ReturnType<typeof launch>[] = [];

beforeEach(async () => {
  vi.stubEnv('FORCE_COLOR', undefined);
  lab = await fakeLab();
  folder = mkdtempSync(join(tmpdir(), 'lathe-lab-tool-'));
});
afterEach(async () => {
  vi.unstubAllEnvs();
  process.chdir(repository);
  for (const tool of started.splice(0)) tool.child.kill('SIGKILL');
  await lab.close();
  rmSync(folder, { recursive: true });
});

const write = (name: string, text: string): string => {
  writeFileSync(join(folder, name), text);
  return name;
};

const environment = () => {
  const { FORCE_COLOR: _, ...rest } = process.env;
  return { ...rest, LATHE_URL: lab.url, LATHE_TOKEN: '' };
};

/** Starts the tool in the folder, with stdout and stderr as pipes. */
function launch(args: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const child = spawn(process.execPath, [entry, ...args], {
    cwd: folder,
    env: { ...environment(), ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const output = { stdout: '', stderr: '' };
  for (const stream of ['stdout', 'stderr'] as const)
    child[stream].setEncoding('utf8').on('data', (text: string) => {
      output[stream] += text;
    });
  const exit = new Promise<number | null>((resolve) => child.on('close', resolve));
  return { child, output, exit };
}

/** Runs the tool as a process, because kernel modules cannot be loaded within the test runner. */
const runProcess = async (args: readonly string[]) => {
  const tool = launch(args);
  started.push(tool);
  const code = await tool.exit;
  return { code, ...tool.output };
};

const sink = () => {
  let written = '';
  const stream = new Writable({
    write(chunk: Buffer, _, done) {
      written += chunk.toString();
      done();
    },
  });
  return { stream, text: () => written };
};

/** Runs the tool in this process, which is much faster. File names are relative to the folder. */
const run = async (args: readonly string[], env: Readonly<Record<string, string>> = {}) => {
  const [stdout, stderr] = [sink(), sink()];
  process.chdir(folder);
  const code = await main({
    args,
    env: { ...environment(), ...env },
    packageRoot: repository,
    stdout: stdout.stream,
    stderr: stderr.stream,
    signals: { on: () => undefined },
    stdoutClosed: new AbortController().signal,
    atExit: () => undefined,
    exit: () => undefined,
  });
  return { code, stdout: stdout.text(), stderr: stderr.text() };
};
const json = async (...args: string[]) => {
  const { code, stdout } = await run([...args, '--json']);
  return { code, document: JSON.parse(stdout) as Record<string, unknown> };
};

const jsonProcess = async (...args: string[]) => {
  const { code, stdout } = await runProcess([...args, '--json']);
  return { code, document: JSON.parse(stdout) as Record<string, unknown> };
};

const good = '//! op: rms_norm\n//! dispatch: tokens\nfn main() {}\n';
const bad = '//! op: rms_norm\n//! dispatch: tokens\nfn main() { bad }\n';

describe('from stub to saved config', () => {
  test('a written stub passes the gate unchanged', async () => {
    expect((await run(['stub', 'rms_norm'])).stdout).toBe(stubSource);
    expect(await run(['stub', 'rms_norm', '--out', 'k.wgsl'])).toMatchObject({ code: 0 });
    expect(readFileSync(join(folder, 'k.wgsl'), 'utf8')).toBe(stubSource);
    expect(await run(['check', 'k.wgsl'])).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('✓ k.wgsl  k (rms_norm)  accepted'),
    });
    expect(lab.requests.at(-1)?.body).toEqual({
      name: 'k',
      op: 'rms_norm',
      source: stubSource,
      dispatch: { x: 'tokens' },
      overrides: { WG: 64 },
    });
  });

  test('a stub does not overwrite a file without --force', async () => {
    write('k.wgsl', 'mine');
    expect(await run(['stub', 'rms_norm', '--out', 'k.wgsl'])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('--force'),
    });
    expect(readFileSync(join(folder, 'k.wgsl'), 'utf8')).toBe('mine');
    expect((await run(['stub', 'rms_norm', '--out', 'k.wgsl', '--force'])).code).toBe(0);
    expect(readFileSync(join(folder, 'k.wgsl'), 'utf8')).toBe(stubSource);
  });

  test('a rejected kernel: exit code 1, with the source line', async () => {
    write('k.wgsl', bad);
    const { code, stdout } = await run(['check', 'k.wgsl']);
    expect(code).toBe(1);
    expect(stdout).toContain('k.wgsl:3:13 error[out_of_bounds]');
    expect(stdout).toContain('    3 | fn main() { bad }\n      |             ^^^\n');
    expect(stdout).not.toContain('\u001b');
  });

  test('every command prints one JSON document', async () => {
    write('k.wgsl', good);
    const documents = [
      await json('ops'),
      await json('stub', 'rms_norm'),
      await json('check', 'k.wgsl'),
      await json('graph'),
      await json('parts'),
      await json('bind', 'k', 'layers.*.attn.norm'),
      await json('parity'),
      await json('parity', '--mode', 'strict'),
      await json('bench', '--rounds', '4', '--contexts', '64,128', '--full', '--kernel', 'my_norm'),
      await json('save', 'mine'),
      await json('configs'),
      await json('validate', 'mine'),
      await json('diff', 'mine', 'mine'),
      await json('unbind'),
      await json('profile', 'k', '--lanes', '16', '--prefill'),
    ];
    expect(documents.map(({ code }) => code)).toEqual(documents.map(() => 0));
    expect(documents[2]?.document).toMatchObject({ ok: true, kernels: [{ file: 'k.wgsl', accepted: true }] });
    expect(documents[5]?.document).toMatchObject({
      kernel: 'k',
      components: expect.arrayContaining(['layers.0.attn.norm']),
    });
    const benched = lab.requests.find(({ path }) => path === '/bench')?.body;
    expect(benched).toEqual({ kernels: ['my_norm'], mode: 'full', rounds: 4, contexts: [64, 128] });
  });

  test('every command prints readable text, within 80 columns if possible', async () => {
    write('k.wgsl', good);
    for (const args of [
      ['ops'],
      ['check', 'k.wgsl'],
      ['graph'],
      ['parts'],
      ['bind', 'k', 'output.norm'],
      ['parity'],
      ['save', 'mine'],
      ['configs'],
      ['validate', 'mine'],
      ['diff', 'mine', 'mine'],
      ['unbind'],
      ['profile', 'k.wgsl'],
      ['profile', 'k'],
      ['--help'],
    ]) {
      const { code, stdout } = await run(args);
      expect([args, code]).toEqual([args, 0]);
      expect(stdout.trim()).not.toBe('');
      for (const line of stdout.split('\n')) expect(line.length, line).toBeLessThanOrEqual(110);
    }
  });

  test('a kernel and a config by name: its source, and what is deleted', async () => {
    write('k.wgsl', good);
    await run(['check', 'k.wgsl']);
    expect(await run(['source', 'k'])).toMatchObject({ code: 0, stdout: 'fn main() {}\n' });
    expect((await json('source', 'k')).document).toMatchObject({
      registration: { name: 'k' },
      state: 'accepted',
    });
    await run(['bind', 'k', 'layers.*.attn.norm']);
    expect((await run(['unbind', 'layers.1.attn.norm', 'layers.2.attn.norm'])).stdout).toBe(
      'layers.1.attn.norm, layers.2.attn.norm run their built-in kernel again\n',
    );
    expect([...lab.bound.keys()]).toEqual(['layers.0.attn.norm', 'layers.3.attn.norm']);
    expect(await run(['unbind', 'layers.9.attn.norm'])).toMatchObject({ code: 3 });
    await run(['save', 'mine']);
    expect((await run(['delete', 'mine', '--config'])).stdout).toBe('deleted the config mine\n');
    expect((await run(['delete', 'k'])).stdout).toBe('deleted the kernel k\n');
    expect(await run(['delete', 'k'])).toMatchObject({
      code: 3,
      stderr: expect.stringContaining("no kernel 'k'"),
    });
  });

  test('a config is exported, imported and verified', async () => {
    await run(['save', 'mine']);
    expect(await run(['export', 'mine', '--out', 'mine.json'])).toMatchObject({
      code: 0,
      stdout: 'wrote mine.json\n',
    });
    expect(await run(['export', 'mine', '--out', 'mine.json'])).toMatchObject({ code: 2 });
    expect((await run(['export', 'mine'])).stdout).toBe(
      `${readFileSync(join(folder, 'mine.json'), 'utf8')}\n`,
    );
    const imported = await run(['import', 'mine.json', '--name', 'theirs']);
    expect(imported).toMatchObject({
      code: 0,
      stdout: 'saved as theirs\n  it cannot be bound here: the key is not trusted\n',
    });
    // The fake host signs nothing.
    const verified = await run(['verify', 'mine.json']);
    expect(verified.code).toBe(1);
    expect(verified.stdout).toContain('✗ mine.json  not valid');
    write('text.json', 'text');
    expect(await run(['verify', 'text.json'])).toMatchObject({ code: 2 });
  });

  test('the history of a kernel, with its benches and the last change', async () => {
    expect((await run(['history', 'k'])).stdout).toBe(
      [
        '2026-11-28T00:00:00.000Z  ✓ accepted  rms_norm  0',
        '  bench 2026-11-28T01:00:00.000Z  decode +10.0% to +20.0%  faster, 9 rounds, together with other',
        '2026-11-27T00:00:00.000Z  ✗ rejected  rms_norm  1',
        '',
        'since 2026-11-27T00:00:00.000Z:',
        '@@ -1,1 +1,1 @@',
        '-fn main() { one }',
        '+fn main() { two }',
        '',
      ].join('\n'),
    );
  });

  test('a stub for a format and a component', async () => {
    const { stdout } = await run(['stub', 'rms_norm', '--format', 'q4_k', '--for', 'layers.0.attn.q']);
    // The gate then checks the stub in its format, whatever the model's is.
    expect(stdout).toContain('//! dtypes: q4_k\n');
    expect(lab.requests.at(-1)?.path).toBe('/ops/rms_norm/stub?format=q4_k&component=layers.0.attn.q');
  });

  test('a profile marks the lines of the file', async () => {
    write('k.wgsl', good);
    const { code, stdout } = await run(['profile', 'k.wgsl']);
    expect(code).toBe(0);
    expect(stdout).toContain('uncoalesced  line 1 reads x in 32 sectors');
    expect(stdout).toContain(
      '    1 | //! op: rms_norm\n      ^ 2.00 x read x, 4 bytes a lane: 16.0 sectors needed, 64.0 touched\n      ^ 1.00 x barrier\n',
    );
    expect(lab.requests.slice(-2).map(({ path, body }) => [path, Object.keys(body as object)[0]])).toEqual([
      ['/kernels', 'name'],
      ['/profile', 'kernel'],
    ]);
    write('k.wgsl', bad);
    expect(await run(['profile', 'k.wgsl'])).toMatchObject({ code: 0 });
    expect((await run(['profile', 'none.wgsl'])).code).toBe(2);
    await run(['profile', 'k.v2', '--lanes', '16', '--prefill']);
    expect(lab.requests.at(-1)?.body).toEqual({ kernel: 'k.v2', lanes: 16, phase: 'prefill' });
  });

  test('a profile with flags says that it replaced a registration', async () => {
    write('k.wgsl', good);
    const note = /k is registered with these flags now/;
    expect((await run(['profile', 'k.wgsl', '--dispatch-x', 'tokens'])).stdout).not.toMatch(note);
    expect((await run(['profile', 'k.wgsl', '--dispatch-x', 'tokens'])).stdout).not.toMatch(note);
    expect((await run(['profile', 'k.wgsl', '--dispatch-x', '2 * tokens'])).stdout).toMatch(note);
  });

  test('a span is bound by its id', async () => {
    await run(['bind', 'k', '--span', 'output.norm']);
    expect(lab.requests.at(-1)?.body).toEqual({ kernel: 'k', span: 'output.norm' });
    expect((await run(['bind', 'k'])).code).toBe(2);
    expect((await run(['bind', 'k', 'a', '--span', 'b'])).code).toBe(2);
  });

  test('an invalid config: exit code 1', async () => {
    const envelope = config(good);
    write('c.json', JSON.stringify({ ...envelope, signature: { ...envelope.signature, value: 'BB==' } }));
    const { code, stdout } = await run(['validate', 'c.json']);
    expect(code).toBe(1);
    expect(stdout).toContain('error[bad_signature]');
    expect(stdout).toContain('· safety (skipped)');
  });

  test('two configs or two benches can be compared by file, but not one with the other', async () => {
    write('a.json', JSON.stringify(config('fn a() {}')));
    write('b.json', JSON.stringify(config('fn b() {}')));
    write('bench.json', (await run(['bench', '--json'])).stdout);
    const changed = await run(['diff', 'a.json', 'b.json']);
    expect(changed).toMatchObject({ code: 0, stdout: expect.stringContaining('-fn a() {}\n+fn b() {}') });
    expect((await run(['diff', 'bench.json', 'bench.json'])).stdout).toContain('decode at 128');
    expect(await run(['diff', 'a.json', 'bench.json'])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('bench.json is a bench'),
    });
    expect((await run(['diff', 'a.json', 'nothing.json'])).code).toBe(2);
    expect((await run(['diff', 'a.json', 'nothing'])).code).toBe(3);
  });
});

describe('kernels as modules', () => {
  const module = (source: string, more = '') =>
    `import { defineKernel } from 'lathe/lab';
const width: number = 64;
export default defineKernel({ name: 'mine', op: 'rms_norm', dispatch: 'tokens', overrides: { WG: width }, source: ${source}${more} });
`;

  test('TypeScript, with the WGSL source in a separate file', async () => {
    write('k.wgsl', bad);
    write('k.ts', module("new URL('./k.wgsl', import.meta.url)"));
    const { code, stdout } = await runProcess(['check', 'k.ts']);
    expect(code).toBe(1);
    expect(stdout).toMatch(/k\.wgsl:3:13 error\[out_of_bounds\]/);
    expect(lab.requests.at(-1)?.body).toMatchObject({
      name: 'mine',
      dispatch: { x: 'tokens' },
      overrides: { WG: 64 },
      source: bad,
    });
  });

  test('findings in a template literal have line numbers of the module', async () => {
    write('k.ts', module('`fn main() {\n  bad\n}`'));
    expect((await runProcess(['check', 'k.ts'])).stdout).toContain('k.ts:4:3 error[out_of_bounds]');
    write('one-line.ts', module('`fn main() { bad }`'));
    const { stdout } = await runProcess(['check', 'one-line.ts']);
    const column = module('`fn main() { bad }`').split('\n')[2]?.indexOf('bad') ?? 0;
    expect(stdout).toContain(`one-line.ts:3:${column + 1} error[out_of_bounds]`);
  });

  test('a function can generate the source from the overrides', async () => {
    write('k.ts', module('({ WG }) => `// ${WG}`'));
    expect((await runProcess(['check', 'k.ts'])).code).toBe(0);
    expect(lab.requests.at(-1)?.body).toMatchObject({ source: '// 64' });
  });

  test('a list of kernels, with all errors of an invalid one', async () => {
    write(
      'k.mjs',
      'console.log("noise");\nexport default [{ name: "a", op: "rms_norm", dispatch: "1", source: "fn a() {}" }, { name: "B", op: 1, dispatch: {}, source: 2, other: 3 }];',
    );
    const { code, document } = await jsonProcess('check', 'k.mjs');
    expect(code).toBe(1);
    const [first, second] = document['kernels'] as { accepted: boolean; findings: { message: string }[] }[];
    expect(first?.accepted).toBe(true);
    expect(second?.findings.map(({ message }) => message.split(':')[0])).toEqual([
      'default[1].name',
      'default[1].op',
      'default[1].source',
      'default[1].dispatch',
      'default[1]',
    ]);
  });

  test.each([
    ['syntax.ts', 'export default {\n  a b\n};', 'syntax.ts:2:5 error[module]'],
    ['throws.ts', 'const x: never = null as never;\nexport default (x as { y: 1 }).y;', 'throws.ts:2:'],
    ['empty.mjs', 'export const a = 1;', 'no default export'],
  ])('%s is an error of the file', async (name, text, expectedText) => {
    const { code, stdout } = await runProcess(['check', write(name, text)]);
    expect(code).toBe(1);
    expect(stdout).toContain(expectedText);
  });
});

describe('errors', () => {
  test('no host', async () => {
    const { code, stdout, stderr } = await run(['ops', '--url', 'http://127.0.0.1:1']);
    expect({ code, stdout }).toEqual({ code: 3, stdout: '' });
    expect(stderr).toContain('no host is listening at http://127.0.0.1:1; start one with');
    const answer = await run(['ops', '--url', 'http://127.0.0.1:1', '--json']);
    expect(JSON.parse(answer.stdout)).toMatchObject({ error: { code: 'unreachable' } });
  });

  test.each([
    ['no_resident_model', '--gpu'],
    ['model_loading', 'still loading'],
  ])('503 %s', async (code, expectedText) => {
    lab.override = () => refusal(503, code, 'no');
    expect(await run(['ops'])).toMatchObject({ code: 3, stderr: expect.stringContaining(expectedText) });
  });

  test('another server, and a host with different responses', async () => {
    lab.override = () => ({ html: '<html>' });
    expect(await run(['ops'])).toMatchObject({
      code: 3,
      stderr: expect.stringContaining('is not a lathe host: GET /lab/v1/ops returned 200 (text/html)'),
    });
    lab.override = () => ({ body: { other: 1 } });
    expect(await run(['ops'])).toMatchObject({ code: 3, stderr: expect.stringContaining('has no ops') });
  });

  test('errors of a rejected body point to the directives of the file', async () => {
    lab.override = ({ path }) =>
      path === '/kernels'
        ? refusal(400, 'invalid_request', 'no', [{ path: 'dispatch.x', message: 'unknown name tokns' }])
        : undefined;
    write('k.wgsl', good);
    const { code, stdout } = await run(['check', 'k.wgsl']);
    expect(code).toBe(1);
    expect(stdout).toContain('k.wgsl:2:5 error[invalid_request] dispatch.x: unknown name tokns');
  });

  test('violations that the message contains are not repeated', async () => {
    const violations = [{ path: 'name', message: 'expected letters' }];
    lab.override = () => refusal(400, 'invalid_request', 'name: expected letters.', violations);
    expect((await run(['ops'])).stderr).toBe('lathe lab: name: expected letters.\n');
    violations.push({ path: 'other', message: 'expected digits' });
    expect((await run(['ops'])).stderr).toBe(
      'lathe lab: name: expected letters.\nlathe lab:   other: expected digits\n',
    );
  });

  test('an unknown op suggests the most similar one', async () => {
    expect(await run(['stub', 'rms_nrom'])).toMatchObject({
      code: 3,
      stderr: expect.stringContaining("did you mean 'rms_norm'?"),
    });
    lab.override = ({ path }) => (path === '/kernels' ? refusal(404, 'unknown_op', 'no such op') : undefined);
    write('k.wgsl', good.replace('rms_norm', 'rms_nrom'));
    expect((await run(['check', 'k.wgsl'])).stdout).toContain(
      "k.wgsl:1:5 error[unknown_op] no such op (did you mean 'rms_norm'?)",
    );
  });

  test('missing files and directories are reported before anything is sent', async () => {
    mkdirSync(join(folder, 'dir'));
    write('k.wgsl', good);
    const { code, stderr } = await run(['check', 'k.wgsl', 'nothing.wgsl', 'dir']);
    expect(code).toBe(2);
    expect(stderr).toContain('nothing.wgsl: there is no such file');
    expect(stderr).toContain('dir: it is a directory');
    expect(lab.requests).toEqual([]);
    expect((await run(['watch', 'nothing.wgsl'])).code).toBe(2);
  });

  test('the token is sent, from the flag, the file or the environment', async () => {
    write('token', 'from-file\n');
    await run(['ops', '--token', 'from-flag']);
    await run(['ops', '--token-file', 'token']);
    await run(['ops'], { LATHE_TOKEN: 'from-env' });
    await run(['ops']);
    expect(lab.requests.map(({ authorization }) => authorization)).toEqual([
      'Bearer from-flag',
      'Bearer from-file',
      'Bearer from-env',
      undefined,
    ]);
  });

  test('a reader of stdout that exits early causes no error', async () => {
    const ops = Array.from({ length: 20_000 }, (_, index) => ({
      op: `op_${index}`,
      summary: 'much to read',
    }));
    lab.override = () => ({ body: { ops } });
    const command = `"${process.execPath}" "${entry}" ops | head -n 1; echo "\${PIPESTATUS[0]}"`;
    const shell = spawn('bash', ['-c', command], { env: environment() });
    const [out, err] = await Promise.all([textOf(shell.stdout), textOf(shell.stderr)]);
    expect([out.trim().split('\n').at(-1), err]).toEqual(['0', '']);
  });
});

describe('watch', () => {
  interface Event {
    readonly event: string;
    readonly file?: string;
    readonly outcomes?: readonly { readonly accepted: boolean }[];
  }
  /** The tool, with events that can be awaited in order. */
  const watching = (...args: string[]) => {
    const tool = launch(['watch', '--json', ...args]);
    started.push(tool);
    let seen = 0;
    const events = () =>
      tool.output.stdout
        .split('\n')
        .slice(0, -1)
        .map((line) => JSON.parse(line) as Event);
    const next = async (name: string, fits: (event: Event) => boolean = () => true): Promise<Event> => {
      for (;;) {
        const all = events();
        const at = all.findIndex((event, index) => index >= seen && event.event === name && fits(event));
        const found = all[at];
        if (found) {
          seen = at + 1;
          return found;
        }
        if (tool.child.exitCode !== null)
          throw new Error(`the tool ended: ${tool.output.stdout}${tool.output.stderr}`);
        await new Promise((resolve) => setTimeout(resolve, 10));
      }
    };
    const stop = async () => {
      tool.child.kill('SIGINT');
      return await tool.exit;
    };
    return { ...tool, events, next, stop };
  };
  const verdict = (event: Event) => event.outcomes?.map((outcome) => outcome.accepted);

  test('every save is checked, also of a replaced and a restored file', async () => {
    write('k.wgsl', good);
    const tool = watching('k.wgsl');
    expect(verdict(await tool.next('gate'))).toEqual([true]);
    write('k.wgsl', bad);
    expect(verdict(await tool.next('gate'))).toEqual([false]);
    write('k.new', good);
    renameSync(join(folder, 'k.new'), join(folder, 'k.wgsl'));
    expect(verdict(await tool.next('gate'))).toEqual([true]);
    rmSync(join(folder, 'k.wgsl'));
    expect((await tool.next('file_unreadable')).file).toBe('k.wgsl');
    write('k.wgsl', bad);
    expect(verdict(await tool.next('gate'))).toEqual([false]);
    expect(await tool.stop()).toBe(0);
  });

  test('a burst of saves ends with the last one', async () => {
    write('k.wgsl', good);
    const tool = watching('k.wgsl');
    await tool.next('gate');
    const before = lab.requests.length;
    for (let save = 0; save < 30; save++) write('k.wgsl', `${good}// ${save}\n`);
    const lastSent = () => lab.requests.findLast(({ path }) => path === '/kernels')?.body;
    await tool.next('gate', () => JSON.stringify(lastSent()).includes('// 29'));
    // Written much faster than two polls of the file, but a slow machine may detect several saves.
    expect(lab.requests.slice(before).filter(({ path }) => path === '/kernels').length).toBeLessThan(30);
    expect(await tool.stop()).toBe(0);
  });

  test('accepted kernels are bound and benched; at the end the previous bindings are restored', async () => {
    lab.bound.set('layers.1.attn.norm', 'older');
    write('k.wgsl', good);
    const tool = watching('k.wgsl', '--bind', 'layers.*.attn.norm');
    await tool.next('bound');
    await tool.next('bench');
    expect([...lab.bound.values()]).toEqual(['k', 'k', 'k', 'k']);
    write('k.wgsl', bad);
    await tool.next('gate');
    write('k.wgsl', good);
    await tool.next('bench');
    expect(await tool.stop()).toBe(0);
    // The figures are those of the kernel, whatever else is bound.
    const benches = lab.requests.filter(({ path }) => path === '/bench').map(({ body }) => body);
    expect(benches).toEqual(benches.map(() => ({ mode: 'quick', kernels: ['k'] })));
    expect([...lab.bound]).toEqual([['layers.1.attn.norm', 'older']]);
    expect(tool.events().at(-1)).toMatchObject({ event: 'stop', unbound: true, failures: [] });
  });

  test('of several files, what was bound since the last bench is measured', async () => {
    write('a.wgsl', good);
    write('b.wgsl', good);
    const tool = watching('a.wgsl', 'b.wgsl', '--bind', 'layers.*.attn.norm');
    await tool.next('bench');
    write('b.wgsl', `${good}// again\n`);
    await tool.next('bench');
    expect(await tool.stop()).toBe(0);
    const benches = lab.requests.filter(({ path }) => path === '/bench').map(({ body }) => body);
    expect(benches).toEqual([
      { mode: 'quick', kernels: ['a', 'b'] },
      { mode: 'quick', kernels: ['b'] },
    ]);
  });

  test('a previously bound span is restored as a span', async () => {
    const requestBodies: unknown[] = [];
    const members = ['norm', 'q', 'k', 'v'].map((node) => ({
      id: `layers.1.attn.${node}`,
      component: 'layers.1.attn.norm_qkv',
      kernel: 'older',
    }));
    lab.override = ({ method, path, body }) => {
      if (path === '/graph') return { body: { nodes: members, spans: [] } };
      if (path !== '/bindings' || method !== 'POST') return undefined;
      requestBodies.push(body);
      return { body: { bound: true, components: ['layers.0.attn.norm'], replaced: [] } };
    };
    write('k.wgsl', good);
    const tool = watching('k.wgsl', '--bind', 'layers.*.attn.norm');
    await tool.next('bench');
    expect(await tool.stop()).toBe(0);
    expect(requestBodies.at(-1)).toEqual({ kernel: 'older', components: ['layers.1.attn.norm_qkv'] });
  });

  test('a kernel without components is not bound, and nothing is unbound', async () => {
    lab.bound.set('output.norm', 'older');
    write('k.wgsl', good);
    const tool = watching('k.wgsl');
    await tool.next('gate');
    await tool.stop();
    expect([...lab.bound]).toEqual([['output.norm', 'older']]);
  });

  test('a save while a bench runs cancels it', async () => {
    let cancelled = 0;
    let benches = 0;
    lab.override = async ({ path }, response) => {
      if (path !== '/bench' || benches++ > 0) return undefined;
      await new Promise((resolve) => response.on('close', resolve));
      cancelled++;
      return undefined;
    };
    write('k.wgsl', `//! bind: output.norm\n${good}`);
    const tool = watching('k.wgsl');
    await tool.next('benching');
    write('k.wgsl', `//! bind: output.norm\n${good}// again\n`);
    await tool.next('bench');
    expect(cancelled).toBe(1);
    await tool.stop();
  });

  test('a module is checked again when a file that it imports or reads is saved', async () => {
    write('helper.ts', 'export const body: string = "good";');
    write(
      'k.ts',
      'import { body } from "./helper.ts";\nexport default { name: "a", op: "rms_norm", dispatch: "1", source: () => body };',
    );
    const tool = watching('k.ts');
    expect(verdict(await tool.next('gate'))).toEqual([true]);
    write('helper.ts', 'export const body: string = "bad";');
    expect(verdict(await tool.next('gate'))).toEqual([false]);
    await tool.stop();
  });

  test('kernels are registered again after a restart of the host', async () => {
    write('k.wgsl', good);
    const tool = watching('k.wgsl', '--bind', 'output.norm');
    await tool.next('bench');
    lab.override = (_, response) => {
      response.destroy();
      return undefined;
    };
    write('k.wgsl', `${good}\n`);
    await tool.next('host_gone');
    lab.registered.clear();
    lab.bound.clear();
    lab.override = () => undefined;
    await tool.next('host_back');
    expect(verdict(await tool.next('gate'))).toEqual([true]);
    await tool.next('bound');
    expect([...lab.bound]).toEqual([['output.norm', 'k']]);
    await tool.stop();
    expect([...lab.bound]).toEqual([]);
  });

  test('a restart of the host while idle is detected', async () => {
    write('k.wgsl', good);
    const tool = watching('k.wgsl');
    await tool.next('gate');
    lab.registered.clear();
    await tool.next('gate');
    expect(lab.registered.has('k')).toBe(true);
    await tool.stop();
  });

  test('prints lines when piped; the end of the reader ends the watch and unbinds', async () => {
    write('k.wgsl', bad);
    const tool = launch(['watch', 'k.wgsl', '--bind', 'output.norm']);
    started.push(tool);
    while (!tool.output.stdout.includes('✗ safety')) await new Promise((resolve) => setTimeout(resolve, 10));
    expect(tool.output.stdout).not.toContain('\u001b');
    tool.child.stdout.destroy();
    write('k.wgsl', good);
    expect(await tool.exit).toBe(0);
    expect([...lab.bound]).toEqual([]);
  });
});
