import { printable } from '../terminal/printable.ts';

export interface Terminal {
  readonly isTTY?: boolean;
  readonly columns?: number;
  write(text: string): unknown;
}

export interface ProgressBar {
  /** @param done of `total`, in any unit */
  show(label: string, done: number, total: number): void;
  clear(): void;
}

const silent: ProgressBar = { show: () => undefined, clear: () => undefined };
const intervalMs = 50;

/** A one-line progress bar. It prints nothing if the output is not a terminal. */
export function progressBar(out: Terminal, quiet: boolean): ProgressBar {
  if (quiet || out.isTTY !== true) return silent;
  let last = '';
  let lastAt = Number.NEGATIVE_INFINITY;
  return {
    show(label, done, total) {
      // A terminal of unknown width reports 0.
      const line = barLine(printable(label), done, total, out.columns || 80);
      const now = performance.now();
      if (line === last || (now - lastAt < intervalMs && done < total)) return;
      out.write(`\r\u001b[2K${line}`);
      last = line;
      lastAt = now;
    },
    clear() {
      if (last !== '') out.write('\r\u001b[2K');
      last = '';
    },
  };
}

/** `weights [#####-----]  50%`, at most `columns - 1` wide. */
export function barLine(label: string, done: number, total: number, columns: number): string {
  const fraction = total > 0 ? Math.min(1, Math.max(0, done / total)) : 0;
  const percent = `${String(Math.floor(fraction * 100)).padStart(3)}%`;
  const width = Math.min(40, columns - label.length - percent.length - 5);
  if (width < 5) return `${label} ${percent}`.slice(0, columns - 1);
  const filled = Math.round(fraction * width);
  return `${label} [${'#'.repeat(filled)}${'-'.repeat(width - filled)}] ${percent}`;
}
