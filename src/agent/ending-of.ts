import { StoreError } from '../store/index.ts';
import type { Ending } from '../watch/index.ts';
import { AgentError } from './errors.ts';
import { Abortion } from './turns/abortion.ts';

/**
 * What an error that ends work means to who watches.
 * @param signal that ends such work: when it is aborted, that is why, whatever came of it
 */
export function endingOf(error: unknown, signal: AbortSignal): Ending {
  const cause: unknown = signal.aborted ? signal.reason : error;
  if (cause instanceof Abortion) return { outcome: 'failed', code: cause.reason };
  if (cause instanceof AgentError || cause instanceof StoreError)
    return { outcome: 'failed', code: cause.code };
  return { outcome: 'failed', code: signal.aborted ? 'shutdown' : 'internal_error' };
}
