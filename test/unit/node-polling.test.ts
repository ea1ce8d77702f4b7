import { promisify } from 'node:util';
import { afterAll, expect, it, vi } from 'vitest';
import { pauseBetweenPolls } from '../../src/platform/node-polling.ts';

const original = globalThis.setImmediate;
let instance: GPU;
afterAll(() => {
  globalThis.setImmediate = original;
});

it('is patched once, and passes arguments and cancellations on', async () => {
  pauseBetweenPolls();
  const patched = globalThis.setImmediate;
  expect(patched).not.toBe(original);
  pauseBetweenPolls();
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

  const cancelled = setImmediate(() => heard.push('never'));
  clearImmediate(cancelled);
  await new Promise<void>((resolve) => setTimeout(resolve, 5));
  expect(heard).toEqual([1, 'two']);
  wait.mockRestore();
});

it('costs resolvers of promises, bound functions and functions of scripts no rest', async () => {
  pauseBetweenPolls();
  const wait = vi.spyOn(Atomics, 'wait');
  const called: string[] = [];
  await new Promise((resolve) => setImmediate(resolve));
  await new Promise<void>((resolve) => setImmediate(resolve.bind(undefined)));
  await new Promise<void>((resolve) => {
    setImmediate(function () {
      called.push('anonymous');
      resolve();
    });
  });
  await promisify(setImmediate)();
  expect(called).toEqual(['anonymous']);
  expect(wait).not.toHaveBeenCalled();
  wait.mockRestore();
});

it('rests after the callbacks of the binding itself', async () => {
  const waits = vi.spyOn(Atomics, 'wait');
  const { create, globals } = await import('webgpu');
  Object.assign(globalThis, globals);
  // Dawn crashes where an instance is collected before its devices.
  instance = create(['backend=null']);
  const adapter = await instance.requestAdapter();
  pauseBetweenPolls();
  const device = await adapter?.requestDevice();
  await device?.queue.onSubmittedWorkDone();
  await vi.waitFor(() => expect(waits).toHaveBeenCalled());
  waits.mockRestore();
  device?.destroy();
});
