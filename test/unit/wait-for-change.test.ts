import { expect, it, vi } from 'vitest';
import { waitForChange } from '../../src/agent/wait-for-change.ts';

const { signal } = new AbortController();

it('waits for the change, for the time, or for the signal', async () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  await waitForChange(promise, 0, signal);
  await waitForChange(undefined, 0, signal);
  const stop = new AbortController();
  const waiting = [signal, signal, stop.signal].map((one) => waitForChange(promise, undefined, one));
  stop.abort(new Error('stopped'));
  await expect(waiting[2]).rejects.toThrow('stopped');
  resolve();
  await Promise.all(waiting.slice(0, 2));
  // It has happened already.
  await waitForChange(promise, undefined, signal);
});

it('keeps nothing for each wait, where a change does not come for a long time', async () => {
  const { promise } = Promise.withResolvers<void>();
  const then = vi.spyOn(promise, 'then');
  for (let wait = 0; wait < 100; wait++) await waitForChange(promise, 0, signal);
  expect(then).toHaveBeenCalledTimes(1);
});
