import { pause } from '../util/pause.ts';
import { StoreError } from './errors.ts';

/**
 * Does what certainly was not done once more, a few times.
 * @param pauses before each further try, in ms
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
