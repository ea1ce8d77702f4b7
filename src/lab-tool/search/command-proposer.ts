/** Proposals of a command: it reads the state of the search as JSON and writes WGSL with `//!` directives. */
import { spawn } from 'node:child_process';
import { errorMessage } from '../../util/error-message.ts';
import type { Proposer, ProposerAnswer, SearchState } from './types.ts';

const timeoutMs = 10 * 60_000;
const maxOutputBytes = 1 << 20;
const killGraceMs = 2000;

export const commandProposer = (command: string): Proposer => ({
  name: 'command',
  propose: (state, signal) => run(command, state, signal),
});

function run(command: string, state: SearchState, signal: AbortSignal): Promise<ProposerAnswer> {
  return new Promise((resolve, reject) => {
    const isWindows = process.platform === 'win32';
    const child = spawn(command, { shell: true, stdio: ['pipe', 'pipe', 'pipe'], detached: !isWindows });
    // Its children, too: they have its process group.
    const kill = (how: NodeJS.Signals) => {
      try {
        if (isWindows || child.pid === undefined) child.kill(how);
        else process.kill(-child.pid, how);
      } catch {
        // It has ended.
      }
    };
    const output = { stdout: '', stderr: '' };
    let problem: string | undefined;
    const stop = (why: string) => {
      problem ??= why;
      kill('SIGTERM');
      setTimeout(() => kill('SIGKILL'), killGraceMs).unref();
    };
    const timer = setTimeout(() => stop(`it did not end within ${timeoutMs / 60_000} minutes`), timeoutMs);
    const onAbort = () => stop('the search ends');
    signal.addEventListener('abort', onAbort);
    for (const name of ['stdout', 'stderr'] as const)
      child[name].setEncoding('utf8').on('data', (text: string) => {
        output[name] += text;
        if (output[name].length > maxOutputBytes) stop(`it wrote more than ${maxOutputBytes} bytes`);
      });
    // A command need not read its input.
    child.stdin.on('error', () => undefined);
    child.stdin.end(`${JSON.stringify(state)}\n`);
    child.on('error', (error) => {
      problem ??= errorMessage(error);
    });
    child.on('close', (code, endedBy) => {
      clearTimeout(timer);
      signal.removeEventListener('abort', onAbort);
      if (signal.aborted) {
        reject(signal.reason as Error);
        return;
      }
      if (problem === undefined && code !== 0)
        problem = `exit code ${code ?? endedBy}: ${output.stderr.trim().slice(-500)}`;
      if (problem !== undefined) resolve({ kind: 'failed', message: problem });
      else if (output.stdout.trim() === '') resolve({ kind: 'done' });
      else resolve({ kind: 'proposal', proposal: { source: output.stdout, idea: ideaOf(output.stdout) } });
    });
  });
}

/** The first comment that is no directive says what the kernel is. */
export const ideaOf = (source: string): string =>
  (/^\s*\/\/(?!!)\s*(.+)$/m.exec(source)?.[1] ?? 'no comment').trim().slice(0, 80);
