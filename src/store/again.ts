import { StoreError } from './errors.ts';

/**
 * Does what certainly was not done once more, a few times.
 * @param pauses before each further try, in ms
 */
export async function again<T>(pauses: readonly number[], work: () => Promise<T>): Promise<T> {
  for (const pause of pauses) {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof StoreError && error.again)) throw error;
    }
    const ms = pause * (0.5 + Math.random());
    await new Promise((resolve) => setTimeout(resolve, ms));
  }
  return await work();
}
