/** Pause between two polls of the GPU: short compared with a step, long compared with a poll. */
const restMs = 0.5;

let resting = false;

/**
 * Dawn's binding waits for the GPU by polling in every turn of the event loop (`setImmediate`), which keeps a core
 * busy. A software adapter needs that core: with a pause after each poll, a prompt is 1.2 to 1.4 times as fast on two
 * cores (`docs/performance.md`). With a real GPU the core is free, and polling without a pause has the least latency.
 * The binding looks up `setImmediate` in the global object, so it is patched there, for the binding's callbacks only.
 */
export function restBetweenLooks(): void {
  if (resting) return;
  resting = true;
  const immediately = globalThis.setImmediate;
  const never = new Int32Array(new SharedArrayBuffer(4));
  const patched = (callback: (...values: unknown[]) => void, ...values: unknown[]) => {
    if (!isBinding(callback)) return immediately(callback, ...values);
    return immediately(() => {
      callback(...values);
      Atomics.wait(never, 0, 0, restMs);
    });
  };
  globalThis.setImmediate = Object.assign(patched, immediately);
}

/**
 * Recognizes the binding's callbacks: anonymous native functions without parameters and with a `prototype`, as Node-API
 * creates them. Promise resolvers have a parameter; resolvers, bound and arrow functions have no `prototype`; script
 * functions have a source text, which is compared last because it is a copy.
 */
const isBinding = (callback: unknown): boolean =>
  typeof callback === 'function' &&
  callback.length === 0 &&
  callback.name === '' &&
  Object.hasOwn(callback, 'prototype') &&
  Function.prototype.toString.call(callback) === nativeSource;

const nativeSource = 'function () { [native code] }';
