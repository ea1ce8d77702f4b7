/** Between two looks at whether the GPU is done: little beside a step, much beside a look. */
const restMs = 0.5;

let resting = false;

/**
 * Dawn's binding waits for the GPU by asking again in every turn of the event loop (`setImmediate`), which keeps a
 * core busy. A software adapter computes on that very core: with a rest after each look, a prompt is 1.2 to 1.4
 * times as fast on two cores (`docs/performance.md`). On a real GPU the core has nothing better to do, and an answer
 * is heard of at once. The binding looks `setImmediate` up in the global object, so that is where the rest goes in;
 * it is for the binding's callbacks alone.
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
 * The binding's callbacks are anonymous native functions without parameters, with a `prototype` as Node-API makes them.
 * Promises' resolvers have one parameter, resolvers, bound and arrow functions no `prototype`, and functions of scripts
 * a source, which is asked for last, because it is a copy of their text.
 */
const isBinding = (callback: unknown): boolean =>
  typeof callback === 'function' &&
  callback.length === 0 &&
  callback.name === '' &&
  Object.hasOwn(callback, 'prototype') &&
  Function.prototype.toString.call(callback) === nativeSource;

const nativeSource = 'function () { [native code] }';
