/** Pause between two polls of the GPU: short compared with a step, long compared with a poll. */
const pauseMs = 0.5;

let isPatched = false;

/**
 * Dawn's binding waits for the GPU by polling in every turn of the event loop (`setImmediate`), which keeps a core
 * busy. A software adapter needs that core: with a pause after each poll, a prompt is 1.2 to 1.4 times as fast on two
 * cores (`docs/performance.md`). With a real GPU the core is free, and polling without a pause has the least latency.
 * The binding looks up `setImmediate` in the global object, so it is patched there, for the binding's callbacks only.
 */
export function pauseBetweenPolls(): void {
  if (isPatched) return;
  isPatched = true;
  const originalSetImmediate = globalThis.setImmediate;
  const sleepCell = new Int32Array(new SharedArrayBuffer(4));
  const patched = (callback: (...values: unknown[]) => void, ...values: unknown[]) => {
    if (!isDawnCallback(callback)) return originalSetImmediate(callback, ...values);
    return originalSetImmediate(() => {
      callback(...values);
      Atomics.wait(sleepCell, 0, 0, pauseMs);
    });
  };
  globalThis.setImmediate = Object.assign(patched, originalSetImmediate);
}

/**
 * Recognizes the binding's callbacks: anonymous native functions without parameters and with a `prototype`, as Node-API
 * creates them. Promise resolvers have a parameter; resolvers, bound and arrow functions have no `prototype`; script
 * functions have a source text, which is compared last because it is a copy.
 */
const isDawnCallback = (callback: unknown): boolean =>
  typeof callback === 'function' &&
  callback.length === 0 &&
  callback.name === '' &&
  Object.hasOwn(callback, 'prototype') &&
  Function.prototype.toString.call(callback) === nativeSource;

const nativeSource = 'function () { [native code] }';
