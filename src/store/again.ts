import { pause } from '../util/pause.ts';
import { StoreError } from './errors.ts';

/**
 * Runs work and retries it after retryable store errors, which guarantee that nothing was written.
 * @param delaysMs delay before each retry, randomized by half
 */
export async function again<T>(pauses: readonly number[], work: () => Promise<T>): Promise<T> {
  for (const base of pauses) {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof StoreError && error.again)) throw error;
    }
    const ms = base * (0.5 + Math.random());
    await pause(ms);
  }
  return await work();
}
