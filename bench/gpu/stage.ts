import { spawn } from 'node:child_process';

/** Result of one stage of a run on a GPU machine. */
export interface StageResult {
  readonly stage: string;
  /** `skipped`: no time was left, or a requirement is missing. */
  readonly outcome: 'ok' | 'failed' | 'timeout' | 'skipped';
  readonly seconds: number;
  /** Why the stage did not succeed, and the end of its stderr. */
  readonly note?: string;
}

const maxStderrCharacters = 4000;

/**
 * Runs a command with a time limit; a timeout kills its whole process group.
 * @param onLine receives each line of stdout as it arrives, so that output before a kill is not lost
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
    // Own process group, so that its children are killed with it.
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
    errors = (errors + text).slice(-maxStderrCharacters);
  });
  return new Promise((resolve) => {
    let timedOut = false;
    const timer = setTimeout(() => {
      timedOut = true;
      if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL');
      // A process stuck in the driver may survive SIGKILL; the run continues without it.
      setTimeout(() => finish('timeout', `ended after ${options.limitMs / 1000} s, and did not die`), 5000);
    }, options.limitMs);
    const finish = (outcome: StageResult['outcome'], reason: string) => {
      clearTimeout(timer);
      if (rest !== '') options.onLine(rest);
      rest = '';
      // A successful stage has no note.
      const note = outcome === 'ok' ? '' : `${reason}\n${errors}`.trim();
      const seconds = Number(((performance.now() - start) / 1000).toFixed(1));
      resolve({ stage, outcome, seconds, ...(note === '' ? {} : { note }) });
    };
    child.on('error', (error) => finish('failed', error.message));
    child.on('close', (code, signal) => {
      if (timedOut) finish('timeout', `ended after ${options.limitMs / 1000} s`);
      else if (code === 0) finish('ok', '');
      else finish('failed', `ended with ${signal ?? code}`);
    });
  });
}
