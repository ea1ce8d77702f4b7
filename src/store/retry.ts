import { sleep } from '../util/sleep.ts';
import { StoreError } from './errors.ts';

/**
 * Runs work and retries it after retryable store errors, which guarantee that nothing was written.
 * @param delaysMs delay before each retry, randomized by half
 */
export async function retry<T>(delaysMs: readonly number[], work: () => Promise<T>): Promise<T> {
  for (const base of delaysMs) {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof StoreError && error.isRetryable)) throw error;
    }
    const ms = base * (0.5 + Math.random());
    await sleep(ms);
  }
  return await work();
}
