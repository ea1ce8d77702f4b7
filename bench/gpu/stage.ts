import { spawn } from 'node:child_process';

/** What became of one part of a run on a GPU machine. */
export interface StageResult {
  readonly stage: string;
  /** `skipped`: there was no time left for it, or what it needs is not there. */
  readonly outcome: 'ok' | 'failed' | 'timeout' | 'skipped';
  readonly seconds: number;
  /** Why it did not go well, and the end of what it said on stderr. */
  readonly note?: string;
}

const keptCharacters = 4000;

/**
 * Runs a command with a limit of time, and everything that it started with it.
 * @param onLine gets each line of its stdout as it comes: what came before an end by force is not lost
 */
export function runStage(
  stage: string,
  command: readonly string[],
  options: {
    readonly limitMs: number;
    readonly onLine: (line: string) => void;
    readonly env?: Readonly<Record<string, string>>;
  },
): Promise<StageResult> {
  const start = performance.now();
  const [file = '', ...args] = command;
  const child = spawn(file, args, {
    // A process group of its own, so that its children end with it.
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...options.env },
  });
  let rest = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    const lines = (rest + text).split('\n');
    rest = lines.pop() ?? '';
    lines.forEach(options.onLine);
  });
  let errors = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    errors = (errors + text).slice(-keptCharacters);
  });
  return new Promise((resolve) => {
    let timedOut = false;
    const timer = setTimeout(() => {
      timedOut = true;
      if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL');
      // A process stuck in the driver may not even die: the others go on without it.
      setTimeout(() => done('timeout', `ended after ${options.limitMs / 1000} s, and did not die`), 5000);
    }, options.limitMs);
    const done = (outcome: StageResult['outcome'], why: string) => {
      clearTimeout(timer);
      if (rest !== '') options.onLine(rest);
      rest = '';
      // A stage that went well has nothing to add.
      const note = outcome === 'ok' ? '' : `${why}\n${errors}`.trim();
      const seconds = Number(((performance.now() - start) / 1000).toFixed(1));
      resolve({ stage, outcome, seconds, ...(note === '' ? {} : { note }) });
    };
    child.on('error', (error) => done('failed', error.message));
    child.on('close', (code, signal) => {
      if (timedOut) done('timeout', `ended after ${options.limitMs / 1000} s`);
      else if (code === 0) done('ok', '');
      else done('failed', `ended with ${signal ?? code}`);
    });
  });
}
