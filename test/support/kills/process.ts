import type { ChildProcess } from 'node:child_process';

/** `npm run test:kills` sets them; few kills otherwise. */
export function killCount(usual: number): number {
  return Number(process.env['LATHE_TEST_KILLS'] ?? usual);
}

/** Whether kills are asked for on this database: `LATHE_TEST_KILLS_ON=postgres`. */
export const killsOn = (kind: string): boolean =>
  [undefined, kind].includes(process.env['LATHE_TEST_KILLS_ON']);

/** What was killed, for who asked for many. */
export function report(figures: Readonly<Record<string, unknown>>): void {
  if (process.env['LATHE_TEST_KILLS'] !== undefined) process.stdout.write(`${JSON.stringify(figures)}\n`);
}

/** The same kills for the same seed, which a failing test names. */
export function randomFrom(seed: number): (below: number) => number {
  let state = seed >>> 0;
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
}

export const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/** The lines that a child has written, whole ones only, and what waits for one of them. */
export function linesOf(child: ChildProcess) {
  const lines: string[] = [];
  let rest = '';
  let stderr = '';
  const waiting = new Set<() => void>();
  const wake = () => {
    for (const one of waiting) one();
  };
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    const parts = (rest + text).split('\n');
    rest = parts.pop() ?? '';
    lines.push(...parts);
    wake();
  });
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  let over = false;
  const ended = new Promise<void>((resolve) => {
    child.on('close', () => {
      over = true;
      wake();
      resolve();
    });
  });
  return {
    lines,
    ended,
    stderr: () => stderr,
    /** Resolves to false when the child ends before it writes such a line. */
    async sees(pattern: RegExp): Promise<boolean> {
      for (;;) {
        if (lines.some((line) => pattern.test(line))) return true;
        if (over) return false;
        const { promise, resolve } = Promise.withResolvers<void>();
        waiting.add(resolve);
        await promise;
        waiting.delete(resolve);
      }
    },
  };
}
