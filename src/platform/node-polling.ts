/** Between two looks at whether the GPU is done: little beside a step, much beside a look. */
const restMs = 0.5;

let resting = false;

/**
 * Dawn's binding waits for the GPU by asking again in every turn of the event loop (`setImmediate`), which keeps a
 * core busy. A software adapter computes on that very core: with a rest after each look, a prompt is 1.2 to 1.4
 * times as fast on two cores (`docs/performance.md`). On a real GPU the core has nothing better to do, and an answer
 * is heard of at once.
 */
export function restBetweenLooks(): void {
  if (resting) return;
  resting = true;
  const immediately = globalThis.setImmediate;
  const never = new Int32Array(new SharedArrayBuffer(4));
  const patched = (callback: (...values: unknown[]) => void, ...values: unknown[]) => {
    if (!isNative(callback)) return immediately(callback, ...values);
    return immediately(() => {
      callback(...values);
      Atomics.wait(never, 0, 0, restMs);
    });
  };
  globalThis.setImmediate = Object.assign(patched, immediately);
}

/** The binding's callbacks are native. So are promises' resolvers: who awaits an immediate waits for the rest too. */
const isNative = (callback: unknown): boolean =>
  typeof callback === 'function' && Function.prototype.toString.call(callback).includes('[native code]');
