import { EventEmitter } from 'node:events';
import { expect, it } from 'vitest';
import { stopOnSignals } from '../../src/cli/signals.ts';
import { stopOnSignals as stopGatewayOnSignals } from '../../src/gateway/cli/serve-command.ts';
import { onReloadSignals, onStopSignals } from '../../src/terminal/stop-signals.ts';

const requestsOf = (apartMs: number, ...signals: string[]): number[] => {
  const source = new EventEmitter();
  const requests: number[] = [];
  let nowMs = 0;
  onStopSignals(source, (request) => requests.push(request), { now: () => nowMs });
  for (const signal of signals) {
    source.emit(signal);
    nowMs += apartMs;
  }
  return requests;
};

it.each([
  [['SIGHUP'], [1]],
  [['SIGINT'], [1]],
  [
    ['SIGTERM', 'SIGINT', 'SIGTERM'],
    [1, 2, 3],
  ],
  // A terminal that closes: the shell sends one, the kernel another.
  [['SIGHUP', 'SIGHUP', 'SIGHUP'], [1]],
  // A service manager ends a session.
  [['SIGTERM', 'SIGHUP'], [1]],
  [['SIGHUP', 'SIGTERM'], [1]],
  [
    ['SIGHUP', 'SIGTERM', 'SIGTERM'],
    [1, 2],
  ],
] as const)('%j are the requests to stop %j', (signals, requests) => {
  expect(requestsOf(300, ...signals)).toEqual(requests);
});

it('the same signal sent to a program and forwarded to it is one request', () => {
  expect(requestsOf(50, 'SIGTERM', 'SIGTERM')).toEqual([1]);
  expect(requestsOf(50, 'SIGINT', 'SIGINT', 'SIGTERM')).toEqual([1, 2]);
  // Ctrl-C held down.
  expect(requestsOf(50, ...Array.from({ length: 5 }, () => 'SIGINT'))).toEqual([1, 2, 3]);
});

it('a host that a closing terminal tells twice ends in order', async () => {
  const source = new EventEmitter();
  const stopped = Promise.withResolvers<void>();
  const exit = Promise.withResolvers<number>();
  stopOnSignals(source, () => stopped.promise, exit.resolve);
  source.emit('SIGHUP');
  source.emit('SIGHUP');
  stopped.resolve();
  expect(await exit.promise).toBe(0);
});

it('a gateway that a closing terminal signals twice still gives running requests their grace period', async () => {
  const source = new EventEmitter();
  const exit = Promise.withResolvers<number>();
  const graces: number[] = [];
  const stop = (graceMs: number) => Promise.resolve(void graces.push(graceMs));
  stopGatewayOnSignals(source, stop, {
    graceMs: 7000,
    exit: exit.resolve,
    report: () => undefined,
    ignoresHangup: false,
  });
  source.emit('SIGHUP');
  source.emit('SIGHUP');
  expect(await exit.promise).toBe(0);
  expect(graces).toEqual([7000]);
});

it.each([
  [true, ['stop 1', 'reload']],
  [false, ['reload', 'reload', 'reload']],
])('SIGHUP is a request to reload where no terminal can close (terminal: %s)', (hasTerminal, expected) => {
  const source = new EventEmitter();
  const seen: string[] = [];
  onStopSignals(source, (request) => seen.push(`stop ${request}`), { ignoresHangup: !hasTerminal });
  onReloadSignals(source, () => seen.push('reload'), hasTerminal);
  for (const signal of ['SIGHUP', 'SIGHUP', 'SIGUSR2']) source.emit(signal);
  expect(seen).toEqual(expected);
});
