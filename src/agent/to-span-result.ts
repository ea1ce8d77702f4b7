import { StoreError } from '../store/index.ts';
import type { SpanResult } from '../tracing/index.ts';
import { AgentError } from './errors.ts';
import { AgentAbortError } from './turns/agent-abort-error.ts';

/**
 * Maps the error that ended an operation to the result of its span.
 * @param signal aborts the operation; when it is aborted, its reason counts instead of the error
 */
export function toSpanResult(error: unknown, signal: AbortSignal): SpanResult {
  const cause: unknown = signal.aborted ? signal.reason : error;
  if (cause instanceof AgentAbortError) return { outcome: 'failed', code: cause.reason };
  if (cause instanceof AgentError || cause instanceof StoreError)
    return { outcome: 'failed', code: cause.code };
  return { outcome: 'failed', code: signal.aborted ? 'shutdown' : 'internal_error' };
}
