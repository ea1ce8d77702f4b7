import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { KernelRegistration } from '../../src/lab/types.ts';
import { main } from '../../src/lab-tool/main.ts';
import { benchResult, type FakeLab, fakeLab, gate, refusal } from '../support/fake-lab-host.ts';
import { entryPath, repository } from '../support/host.ts';
import { until } from '../support/until.ts';

let lab: FakeLab;
let folder: string;
/** Sources of the registered kernels, by name. */
const sources = new Map<string, string>();

/** A lab that does with a kernel what its source says: `// fast 1.2`, `// flagged`, `// refused`, ... */
beforeEach(async () => {
  lab = await fakeLab();
  folder = mkdtempSync(join(tmpdir(), 'lathe-search-'));
  sources.clear();
  const boundSource = () => [...lab.bound.values()].map((name) => sources.get(name) ?? '').join();
  let isAway = 0;
  lab.override = ({ method, path, body }) => {
    if (isAway > 0) {
      isAway--;
      return refusal(503, 'model_loading', 'the model is loading');
    }
    if (method === 'POST' && path === '/kernels') {
      const registration = body as KernelRegistration;
      sources.set(registration.name, registration.source);
      if (!registration.source.includes('flagged')) return undefined;
      const report = gate(registration);
      lab.registered.set(registration.name, report);
      const warning = { code: 'untested_condition', severity: 'warning', message: 'never true', line: 2 };
      const stages = report.stages.map((one) =>
        one.stage === 'parity' ? { ...one, findings: [warning] } : one,
      );
      return { status: 201, body: { ...report, stages } };
    }
    if (method === 'POST' && path === '/bindings') {
      const source = sources.get((body as { kernel: string }).kernel) ?? '';
      if (source.includes('refused')) return refusal(409, 'not_bindable', 'it drifts by 0.01 nats');
      if (source.includes('lost')) {
        isAway = 2;
        return refusal(503, 'device_lost', 'the device was lost');
      }
    }
    if (method === 'POST' && path === '/parity/run' && boundSource().includes('unequal'))
      return {
        body: { seed: 1, ok: false, components: [], logits: { kl: 0.1, top1_agreement: 0.5, positions: 64 } },
      };
    if (method === 'POST' && path === '/bench') {
      if (boundSource().includes('endless')) return new Promise(() => undefined);
      const ratio = Number(/fast ([\d.]+)/.exec(boundSource())?.[1] ?? 1);
      const result = benchResult(ratio);
      return { body: boundSource().includes('skips') ? { ...result, verdict: 'suspect' } : result };
    }
    return undefined;
  };
});
afterEach(async () => {
  await lab.close();
  rmSync(folder, { recursive: true });
});

const at = (name: string) => join(folder, name);
const kernel = (what: string) =>
  `//! op: rms_norm\n//! dispatch: tokens\n// ${what}\nfn main() { ${what.replaceAll(/\W/g, '_')}; }\n`;

/** A command that proposes kernels in turn: it counts its attempts. `!` fails. */
function commandOf(whats: readonly string[]): string {
  writeFileSync(
    at('proposer.mjs'),
    `import { readFileSync, appendFileSync } from 'node:fs';
    const state = JSON.parse(readFileSync(0, 'utf8'));
    appendFileSync(${JSON.stringify(at('states.jsonl'))}, JSON.stringify(state) + '\\n');
    const list = ${JSON.stringify(whats.map((what) => (what === '!' ? what : kernel(what))))};
    const next = list[state.attempts.filter(({ by }) => by === 'command').length];
    if (next === '!') { console.error('no idea'); process.exit(3); }
    process.stdout.write(next ?? '');`,
  );
  return `${process.execPath} ${at('proposer.mjs')}`;
}

const argsOf = (...more: string[]) => [
  'search',
  'rms_norm',
  '--bind',
  'layers.*.attn.norm',
  '--name',
  'found',
  '--journal',
  at('found.jsonl'),
  '--url',
  lab.url,
  ...more,
];

async function run(...args: string[]) {
  const output = { stdout: '', stderr: '' };
  const into = (name: keyof typeof output) =>
    new Writable({
      write(chunk: Buffer, _, done) {
        output[name] += chunk.toString();
        done();
      },
    });
  const code = await main({
    args,
    env: {},
    packageRoot: repository,
    stdout: into('stdout'),
    stderr: into('stderr'),
    signals: { on: () => undefined },
    stdoutClosed: new AbortController().signal,
    atExit: () => undefined,
    exit: () => undefined,
  });
  return { code, ...output };
}

const journal = () =>
  readFileSync(at('found.jsonl'), 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>);
/** Ideas and verdicts of the command's attempts. */
const verdicts = () => {
  const ideas = new Map(
    journal()
      .filter(({ type, by }) => type === 'begun' && by === 'command')
      .map(({ n, idea }) => [n, idea]),
  );
  return journal().flatMap(({ type, n, verdict }) =>
    type === 'ended' && ideas.has(n) ? [`${String(ideas.get(n))}: ${String(verdict)}`] : [],
  );
};
const paths = () => lab.requests.map(({ method, path }) => `${method} ${path}`);

describe('a search', () => {
  test('keeps the best honest kernel, and no cheat, however fast', async () => {
    lab.bound.set('output.norm', 'mine');
    const command = commandOf([
      'fast 1.1',
      'bad fast 9',
      'flagged fast 8',
      'refused fast 7',
      'unequal fast 6',
      'skips fast 5',
      'lost fast 4',
      'fast 1.3',
      'fast 1.3',
      'fast 1.2',
    ]);
    const { code, stdout } = await run(...argsOf('--command', command));
    expect(verdicts()).toEqual([
      'fast 1.1: faster',
      'bad fast 9: rejected',
      'flagged fast 8: flagged',
      'refused fast 7: not_bindable',
      'unequal fast 6: parity_failed',
      'skips fast 5: suspect',
      'lost fast 4: host_lost',
      'fast 1.3: faster',
      'fast 1.3: duplicate',
      'fast 1.2: faster',
    ]);
    expect(code).toBe(0);
    expect(stdout).toMatch(/\n\* \d+ +command +fast 1\.3 +faster +\+30\.0% \(/);
    expect(stdout).toContain('saved as the config found');
    // The best one was bound, measured in full and saved; then what had been bound runs again.
    const saved = paths().indexOf('POST /configs');
    const before = lab.requests
      .slice(0, saved)
      .filter(({ path }) => path === '/bench')
      .at(-1);
    expect(before?.body).toEqual({ mode: 'full', kernels: [expect.stringMatching(/^search_/)] });
    const bound = lab.requests
      .slice(0, saved)
      .filter(({ path, method }) => method === 'POST' && path === '/bindings');
    const [{ kernel: best } = { kernel: '' }] = bound.slice(-1).map(({ body }) => body as { kernel: string });
    const registrations = lab.requests.filter(({ path, method }) => method === 'POST' && path === '/kernels');
    expect(
      registrations.map(({ body }) => body as KernelRegistration).find(({ name }) => name === best)?.source,
    ).toContain('fast 1.3');
    expect([...lab.bound]).toEqual([['output.norm', 'mine']]);
    expect([...lab.registered.keys()]).toEqual([]);
    // The command saw what became of its proposals.
    const states = readFileSync(at('states.jsonl'), 'utf8')
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(states[2]).toMatchObject({
      op: 'rms_norm',
      goal: 'decode',
      best: { idea: 'fast 1.1', ratio: expect.closeTo(1.1) },
      last: {
        verdict: 'rejected',
        findings: [{ code: 'out_of_bounds', line: 3 }],
        source: expect.stringContaining('bad'),
      },
    });
  });

  test('saves nothing that is not faster, unless asked to', async () => {
    const command = commandOf(['fast 0.9']);
    const { code, stdout } = await run(...argsOf('--command', command));
    expect(code).toBe(1);
    expect(stdout).toContain('nothing was faster than the built-in kernels');
    expect(stdout).toContain('no config is saved; --force');
    expect(paths()).not.toContain('POST /configs');
    const forced = await run(...argsOf('--command', command, '--force'));
    expect(forced.code).toBe(1);
    expect(forced.stdout).toContain('saved as the config found');
    expect(paths()).toContain('POST /configs');
  });

  test('saves nothing that is not faster than what was bound before', async () => {
    sources.set('mine', '// fast 1.3');
    lab.bound.set('layers.0.attn.norm', 'mine');
    const slower = await run(...argsOf('--command', commandOf(['fast 1.2'])));
    expect(slower.code).toBe(1);
    expect(slower.stdout).toMatch(
      /nothing was faster than what was bound before:\nbench .*\n +decode +\+30\.0% \(/,
    );
    expect(paths()).not.toContain('POST /configs');
    expect([...lab.bound]).toEqual([['layers.0.attn.norm', 'mine']]);
    rmSync(at('found.jsonl'));
    const faster = await run(...argsOf('--command', commandOf(['fast 1.5'])));
    expect(faster.code).toBe(0);
    expect(faster.stdout).toContain('saved as the config found');
  });

  test('goes on after kill -9, and leaves what killed it twice', async () => {
    const command = commandOf(['fast 1.1', 'endless', 'fast 1.2']);
    for (const times of [1, 2]) {
      const child = spawn(process.execPath, [entryPath('lab'), ...argsOf('--command', command)], {
        stdio: 'ignore',
      });
      const hangs = () =>
        journal().filter(({ type, idea }) => type === 'begun' && idea === 'endless').length === times &&
        [...lab.bound.values()].length > 0 &&
        paths().filter((one) => one === 'POST /bench').length > times;
      await until(() => {
        try {
          return hangs();
        } catch {
          return false; // no journal yet
        }
      });
      child.kill('SIGKILL');
      await new Promise((resolve) => child.on('close', resolve));
    }
    // A write that was cut off.
    writeFileSync(at('found.jsonl'), '{"type":"ended","n":', { flag: 'a' });
    const { code, stdout } = await run(...argsOf('--command', command));
    expect(code).toBe(0);
    expect(stdout).toContain('going on after');
    expect(verdicts()).toEqual(['fast 1.1: faster', 'endless: interrupted', 'fast 1.2: faster']);
    expect([...lab.bound]).toEqual([]);
  });

  test('ends with its budget, and when a proposer fails again and again', async () => {
    const many = commandOf(Array.from({ length: 500 }, (_, n) => `slow fast 0.${100 + n}`));
    const start = performance.now();
    expect((await run(...argsOf('--command', many, '--budget', '2s'))).code).toBe(1);
    expect(performance.now() - start).toBeLessThan(30_000);
    expect(verdicts().length).toBeLessThan(400);

    rmSync(at('found.jsonl'));
    const { code, stdout } = await run(...argsOf('--command', commandOf(['fast 1.1', '!'])));
    expect(code).toBe(0);
    expect(stdout).toContain('! gave up after 3 failures; the last: command: exit code 3: no idea');
  });

  test('names every fault of the command line, and refuses the journal of another search', async () => {
    const { code, stderr } = await run(
      ...argsOf('--budget', 'long', '--goal', 'both', '--command', 'a', '--model', 'b'),
    );
    expect(code).toBe(2);
    for (const fault of [
      '--budget: expected',
      '--goal: expected',
      '--command and --model exclude each other',
    ])
      expect(stderr).toContain(fault);
    expect((await run('search', 'norm', '--url', lab.url)).stderr).toContain(
      "there is no op 'norm'; expected one of",
    );
    expect((await run(...argsOf('--command', commandOf(['fast 1.1'])))).code).toBe(0);
    expect(await run(...argsOf('--goal', 'prefill'))).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('it is the journal of a search with another goal (decode)'),
    });
    writeFileSync(at('found.jsonl'), 'text\n');
    expect((await run(...argsOf())).stderr).toContain('line 1 is not JSON');
  });

  test('asks a model with what it should know, and takes the last block of its answer', async () => {
    const asked: { messages: { content: string }[] }[] = [];
    const answers = [`Here:\n\`\`\`wgsl\nold\n\`\`\`\n\`\`\`wgsl\n${kernel('fast 1.4')}\`\`\``, 'I give up.'];
    const override = lab.override;
    lab.override = (request, response) => {
      if (!request.path.endsWith('/chat/completions')) return override(request, response);
      asked.push(request.body as (typeof asked)[number]);
      const content = answers[Math.min(asked.length, answers.length) - 1];
      return { body: { choices: [{ message: { content } }] } };
    };
    const { code, stdout } = await run(...argsOf('--model', 'author', '--model-url', `${lab.url}/own`));
    expect(code).toBe(0);
    expect(stdout).toMatch(/\* \d+ +model +fast 1\.4 +faster/);
    expect(stdout).toContain('the answer has no fenced block');
    expect(asked[0]?.messages[1]?.content).toContain('The stub is correct');
    expect(asked[1]?.messages[1]?.content).toMatch(/The best so far, 1\.400 times[\s\S]*fast 1\.4/);
  });
});
