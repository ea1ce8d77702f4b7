import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout } from 'node:timers/promises';

/** Time limit of a wait, long enough for slow machines. */
const limitMs = 60_000;

/** Whether programs can be run on a terminal here: `script` of util-linux. */
export const hasPty = spawnSync('script', ['--version']).stdout?.toString().includes('util-linux') ?? false;

const quote = (word: string): string => `'${word.replaceAll("'", `'\\''`)}'`;

/** Runs a program on a terminal of 100 columns. */
export function runOnTerminal(
  command: readonly string[],
  { cwd, env = {} }: { readonly cwd: string; readonly env?: Readonly<Record<string, string>> },
) {
  const line = `stty cols 100 rows 40; exec ${command.map(quote).join(' ')}`;
  const child = spawn('script', ['-qec', line, '/dev/null'], {
    cwd,
    env: { ...process.env, SHELL: '/bin/sh', TERM: 'xterm', ...env },
  });
  let output = '';
  let read = 0;
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    output += text;
  });
  const closed = once(child, 'close') as Promise<[number | null]>;
  let isOver = false;
  void closed.then(() => {
    isOver = true;
  });
  return {
    /** All output until now. */
    get output() {
      return output;
    },
    type: (text: string) => child.stdin.write(text),
    /** Waits for a pattern after what was last waited for. */
    async see(pattern: RegExp): Promise<RegExpExecArray> {
      for (const end = performance.now() + limitMs; ; ) {
        const found = pattern.exec(output.slice(read));
        if (found) {
          read += found.index + found[0].length;
          return found;
        }
        if (isOver || performance.now() > end) throw new Error(`no ${pattern} in:\n${output.slice(read)}`);
        await setTimeout(10);
      }
    },
    exitCode: async () => (await closed)[0],
    async end() {
      child.kill('SIGKILL');
      await closed;
    },
  };
}
