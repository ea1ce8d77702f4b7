import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { HangWatchdog } from '../../src/engine/execution/hang-watchdog.ts';
import type { Runner } from '../../src/engine/execution/runner.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] });
});
afterEach(() => {
  vi.useRealTimers();
});

/** Watches a step that does not end. @param share processor time that the process gets, of the time */
function watch(share: number, software = true): string[] {
  const hangs: string[] = [];
  const began = performance.now();
  const watchdog = new HangWatchdog(
    (reason) => hangs.push(`${Math.round((performance.now() - began) / 1000)}: ${reason}`),
    () => share * performance.now(),
  );
  const runner = {
    gpu: { caps: { software } },
    weightBytes: 0,
    oldestSubmit: began,
    compilingSince: undefined,
  };
  watchdog.watch(runner as unknown as Runner, () => hangs.length === 0);
  vi.advanceTimersByTime(200_000);
  watchdog.stop();
  return hangs.slice(0, 1);
}

it('a step that computes for too long hangs', () => {
  expect(watch(1)).toEqual(['20: a step did not end within 20 s']);
  expect(watch(2)).toEqual(['20: a step did not end within 20 s']);
});

it('on a busy machine, a step of a software adapter has more time, and never without end', () => {
  expect(watch(0.5)).toEqual(['39: a step did not end within 20 s']);
  expect(watch(0)).toEqual(['80: a step did not end within 20 s']);
  expect(watch(0, false)).toEqual(['20: a step did not end within 20 s']);
});
