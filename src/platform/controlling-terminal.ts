import { closeSync, openSync } from 'node:fs';

/** Whether the process has a controlling terminal, whose end sends it SIGHUP. */
export function hasControllingTerminal(): boolean {
  if (process.platform === 'win32') return true;
  try {
    closeSync(openSync('/dev/tty', 'r'));
    return true;
  } catch {
    return false;
  }
}
