import { spawn } from 'node:child_process';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { buildIfNeeded } from '../../scripts/build.mjs';
import { sameSignalMs } from '../../src/terminal/stop-signals.ts';

export const repository = fileURLToPath(new URL('../..', import.meta.url));
const built = join(repository, 'dist/host.js');
/** `npm test` has just built them, and they start in a third of the time; by hand it is the sources that are meant. */
const isBuilt = process.env['LATHE_TEST_BUILT'] === '1';
/** Path of an entry point of the program, as it is now: `host`, `lab`, `lab-child`, `recorder-worker`. */
export const entryPath = (name: string): string =>
  join(repository, isBuilt ? `dist/${name}.js` : `src/${name}.ts`);
/** Path of a program of `test/support` that is bundled with what it imports (test/programs.config.ts). */
export const supportProgram = (name: string): string =>
  join(repository, isBuilt ? `node_modules/.lathe-tests/${basename(name)}.js` : `test/support/${name}.ts`);
const source = entryPath('host');
export const gatewayProgram = entryPath('gateway');
const scripted = supportProgram('scripted-host');
const limitsModule = pathToFileURL(join(repository, 'test/support/long-limits.ts')).href;

/** Builds `dist/` where it is missing or older than its sources. */
export function buildHost(): void {
  if (!buildIfNeeded()) throw new Error('the build failed; see its output');
}

interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export const freshDataDir = (): string => mkdtempSync(join(tmpdir(), 'lathe-test-'));

/** Starts the built host. */
export const startHost = (args: readonly string[], env: Readonly<Record<string, string>> = {}) =>
  startProcess(built, args, env);

/** Starts the host as it is now. */
export const startSource = (args: readonly string[], env: Readonly<Record<string, string>> = {}) =>
  startProcess(source, args, env);

/** Starts the same command line over a scripted engine: `script` goes to test/support/scripted-host.ts. */
export const startScriptedHost = (
  args: readonly string[],
  script: Readonly<Record<string, unknown>> = {},
  env: Readonly<Record<string, string>> = {},
) => startProcess(scripted, args, { LATHE_TEST_SCRIPT: JSON.stringify(script), ...env });

/** Waits until the same signal is another request to stop. */
export const untilNextSignal = (): Promise<void> => setTimeout(2 * sameSignalMs);

/** The environment of a process whose limits are a thousand times as long, those of so many milliseconds and more. */
export const longLimits = (fromMs: number): Record<string, string> => ({
  NODE_OPTIONS: `--import=${limitsModule}`,
  LATHE_TEST_LONG_FROM: String(fromMs),
});

/** Starts the gateway as it is now. */
export const startGateway = (args: readonly string[], env: Readonly<Record<string, string>> = {}) =>
  startProcess(gatewayProgram, args, env);

function startProcess(file: string, args: readonly string[], env: Readonly<Record<string, string>>) {
  const child = spawn(process.execPath, [file, ...args], {
    cwd: repository,
    env: { ...process.env, LATHE_DATA_DIR: freshDataDir(), ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const output = { stdout: '', stderr: '' };
  for (const stream of ['stdout', 'stderr'] as const) {
    child[stream].setEncoding('utf8').on('data', (text: string) => {
      output[stream] += text;
    });
  }
  const exit = new Promise<Exit>((resolve) => {
    child.on('close', (code, signal) => resolve({ code, signal }));
  });
  let over = false;
  void exit.then(() => {
    over = true;
  });
  /** Waits for a pattern on an output; fails with both outputs when the process ends before it. */
  const waitFor = async (stream: 'stdout' | 'stderr', pattern: RegExp): Promise<RegExpExecArray> => {
    for (;;) {
      const found = pattern.exec(output[stream]);
      if (found) return found;
      if (over) throw new Error(`the host ended without ${pattern}:\n${output.stdout}\n${output.stderr}`);
      await setTimeout(20);
    }
  };
  return {
    pid: child.pid ?? 0,
    output,
    exit,
    waitFor,
    /** The address of the ready line. */
    url: async () => (await waitFor('stdout', /ready (?:at|on) (https?:\/\/\S*[^\s:])/))[1] ?? '',
    kill: (signal: NodeJS.Signals) => child.kill(signal),
    /** Closes the read ends of its output, as when its terminal closes. */
    closeOutput() {
      child.stdout.destroy();
      child.stderr.destroy();
    },
    /** Ends what a test left over. */
    async end() {
      if (!over) child.kill('SIGKILL');
      await exit;
    },
  };
}

export type HostProcess = ReturnType<typeof startProcess>;
