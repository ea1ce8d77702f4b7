import { execFile } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { FileTally } from '../../bench/gpu/gpu-report.ts';
import { runStage } from '../../bench/gpu/stage.ts';
import { runsRest } from '../support/tier.ts';

const node = process.execPath;

describe('a stage', () => {
  const run = async (script: string, limitMs = 600_000) => {
    const lines: string[] = [];
    const result = await runStage('s', [node, '-e', script], { limitMs, onLine: (line) => lines.push(line) });
    return { ...result, lines };
  };

  it('yields its lines as they arrive, including a last line without a newline', async () => {
    const { outcome, lines } = await run('process.stdout.write("a\\nb\\nc")');
    expect({ outcome, lines }).toEqual({ outcome: 'ok', lines: ['a', 'b', 'c'] });
  });

  it('reports how it failed, with its last output', async () => {
    const { outcome, note } = await run('console.error("no device"); process.exit(3)');
    expect(outcome).toBe('failed');
    expect(note).toMatch(/ended with 3\nno device/);
  });

  it.runIf(runsRest)('is killed with its children when it hangs, and its output is kept', async () => {
    const hang = 'setInterval(() => {}, 1000)';
    const script = `console.log("begun");
      require('child_process').spawn(process.execPath, ['-e', '${hang}'], { stdio: 'inherit' }); ${hang}`;
    // Its child keeps the pipe open: the stage ends only when the child has ended too.
    const { outcome, lines, note } = await run(script, 10_000);
    expect({ outcome, lines }).toEqual({ outcome: 'timeout', lines: ['begun'] });
    expect(note).not.toContain('did not die');
  });

  it('fails when its program does not exist', async () => {
    const result = await runStage('s', ['/nonexistent/program'], {
      limitMs: 600_000,
      onLine: () => undefined,
    });
    expect(result).toMatchObject({ outcome: 'failed' });
  });
});

describe('a test file without vitest', () => {
  const script = fileURLToPath(new URL('../../bench/gpu/run-tests.ts', import.meta.url));
  const runFile = async (source: string, ...args: string[]) => {
    const folder = mkdtempSync(join(tmpdir(), 'lathe-tests-'));
    const file = join(folder, 'sample.test.mjs');
    writeFileSync(file, source);
    const tally = new FileTally('sample');
    const code = await new Promise<number | null>((resolve) => {
      const child = execFile(node, [script, file, ...args], (_error, stdout) => {
        stdout.split('\n').forEach((line) => tally.addLine(line));
        resolve(child.exitCode);
      });
    });
    return { code, ...tally.result() };
  };

  it('passes, fails and skips as with vitest', async () => {
    const { code, passed, failures, skipped } = await runFile(`
      import { afterAll, beforeAll, describe, expect, it } from 'vitest';
      let ready = 0;
      beforeAll(async () => { ready += 1; });
      describe('outer', () => {
        beforeAll(() => { ready += 1; });
        it('has its hooks', () => expect(ready).toBe(2));
        it.each([[1, 'a'], [2, 'b']])('case %d %s', (n, s) => expect(s).toBe(n === 1 ? 'a' : 'x'));
        it('skips', (context) => context.skip('not here'));
        it('polls', async () => { let n = 0; await expect.poll(() => ++n).toBeGreaterThan(2); });
        it('rejects', async () => { await expect(Promise.reject(new Error('no'))).rejects.toThrow('no'); });
        describe.skip('never', () => { throw new Error('collected'); });
        it('throws later', async () => { await null; throw new Error('later'); });
      });
      describe('broken', () => {
        beforeAll(() => { throw new Error('no adapter'); });
        it('cannot run', () => {});
      });
    `);
    expect(code).toBe(1);
    expect(passed).toBe(4);
    expect(skipped).toEqual({ 'not here': 1 });
    expect(failures.map(({ test, note }) => [test, note?.split('\n')[0]])).toEqual([
      ['outer > case 2 b', "expected 'b' to be 'x' // Object.is equality"],
      ['outer > throws later', 'later'],
      ['broken > cannot run', 'beforeAll: no adapter'],
    ]);
  });

  it('starts no test after its time limit, and reports that', async () => {
    const source = `import { it } from 'vitest'; it('a', () => {}); it('b', () => {});`;
    expect(await runFile(source, '0')).toMatchObject({ passed: 0, skipped: { 'no time left': 2 }, code: 0 });
  });

  it('fails when it has no tests', async () => {
    expect(await runFile('export {};')).toMatchObject({ passed: 0, code: 1 });
  });

  it('reports the test that was running when it was killed', () => {
    const tally = new FileTally('f');
    for (const line of [
      '{"start":"a"}',
      '{"test":"a","outcome":"passed","ms":1}',
      'noise',
      '{"start":"b"}',
    ]) {
      tally.addLine(line);
    }
    expect(tally.result()).toMatchObject({ passed: 1, unfinished: 'b' });
  });
});
