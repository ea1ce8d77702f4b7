// Plain JavaScript, because scripts/start.mjs also uses it, on a Node that may be too old for TypeScript.
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { constants } from 'node:os';

const signals = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'];
/** npm forwards a Ctrl-C to this process, which already got it from the terminal. */
const sameSignalMs = 200;
const parentCheckMs = 250;

/** Signals that end a program without address space: V8 and allocators abort, drivers use failed allocations. */
const crashes = new Set(['SIGABRT', 'SIGTRAP', 'SIGSEGV', 'SIGBUS', 'SIGILL']);

export const runInForeground = (command, args, { ownSession = false, hold = false, cwd, env } = {}) =>
  new Promise((resolve) => {
    // In its own session the child gets no Ctrl-C from the terminal, only forwarded signals. The IPC channel tells it
    // when this process is gone, also after a kill. Windows sends Ctrl-C to both processes.
    const windows = process.platform === 'win32';
    const child = spawn(command, args, {
      cwd,
      env: { ...process.env, ...env },
      stdio: [
        ...(hold ? ['ignore', 'pipe', 'pipe'] : ['inherit', 'inherit', 'inherit']),
        ...(ownSession ? ['ipc'] : []),
      ],
      detached: ownSession && !windows,
    });
    const held = [];
    for (const stream of hold ? [child.stdout, child.stderr] : []) {
      stream.on('data', (bytes) => held.push(bytes));
    }
    const last = new Map();
    let isNotified = false;
    const listeners = signals.map((signal) => {
      const listener = () => {
        const now = performance.now();
        const repeated = now - (last.get(signal) ?? Number.NEGATIVE_INFINITY) < sameSignalMs;
        last.set(signal, now);
        if (!windows && !repeated) child.kill(signal);
        isNotified ||= signal === 'SIGHUP' || signal === 'SIGTERM';
      };
      process.on(signal, listener);
      return () => process.removeListener(signal, listener);
    });
    // npm sends SIGTERM to a shell between npm and this process. The shell dies silently, which shows only as a changed
    // parent. A closing terminal also ends npm and the shell, but signals this process: then no second signal is sent,
    // because it would interrupt the child's shutdown.
    const parent = process.ppid;
    const watch = setInterval(() => {
      if (process.env.npm_lifecycle_event === undefined || process.ppid === parent) return;
      clearInterval(watch);
      if (!isNotified) child.kill('SIGTERM');
    }, parentCheckMs);
    const end = (code) => {
      clearInterval(watch);
      for (const remove of listeners) remove();
      for (const bytes of held) process.stdout.write(bytes);
      resolve(code);
    };
    child.on('error', (error) => {
      process.stderr.write(`cannot run ${command}: ${error.message}\n`);
      end(127);
    });
    // With pipes, only `close` comes after all output.
    child.on(hold ? 'close' : 'exit', (code, signal) => {
      if (crashes.has(signal)) {
        const limit = addressSpaceLimit();
        process.stderr.write(
          `lathe: the program ended with ${signal}${limit === undefined ? '' : `; ${limitNote(limit)}`}\n`,
        );
      }
      end(code ?? 128 + (constants.signals[signal] ?? 0));
    });
  });

export const addressSpaceLimit = (path = '/proc/self/limits') => {
  let limits;
  try {
    limits = readFileSync(path, 'utf8');
  } catch {
    // Only Linux has this file.
    return undefined;
  }
  const bytes = /^Max address space\s+(\d+)/m.exec(limits)?.[1];
  return bytes === undefined ? undefined : Number(bytes);
};

export const limitNote = (bytes) =>
  `the address space of this process is limited to ${(bytes / 2 ** 30).toFixed(1)} GiB (ulimit -v) and is probably exhausted: ` +
  'raise the limit (`ulimit -v unlimited`) or load a smaller model';

export const endWithLauncher = () => {
  if (!process.connected) return;
  process.on('disconnect', () => process.kill(process.pid, 'SIGTERM'));
  // The channel must not keep the process alive.
  process.channel?.unref();
};
