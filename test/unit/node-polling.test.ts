import { afterAll, expect, it, vi } from 'vitest';
import { restBetweenLooks } from '../../src/platform/node-polling.ts';

const original = globalThis.setImmediate;
afterAll(() => {
  globalThis.setImmediate = original;
});

it('rests after native callbacks, and leaves others as they are', async () => {
  restBetweenLooks();
  const patched = globalThis.setImmediate;
  expect(patched).not.toBe(original);
  restBetweenLooks();
  expect(globalThis.setImmediate, 'patched once').toBe(patched);

  const wait = vi.spyOn(Atomics, 'wait');
  const heard: unknown[] = [];
  await new Promise<void>((resolve) => {
    setImmediate(
      (...values: unknown[]) => {
        heard.push(...values);
        resolve();
      },
      1,
      'two',
    );
  });
  expect(heard).toEqual([1, 'two']);
  expect(wait).not.toHaveBeenCalled();

  // A bound function is as native as the binding's own.
  const native = heard.push.bind(heard, 3);
  setImmediate(native);
  await expect.poll(() => heard).toEqual([1, 'two', 3]);
  expect(wait).toHaveBeenCalledTimes(1);

  const cancelled = setImmediate(() => heard.push('never'));
  clearImmediate(cancelled);
  await new Promise<void>((resolve) => setTimeout(resolve, 5));
  expect(heard).toEqual([1, 'two', 3]);
  wait.mockRestore();
});
