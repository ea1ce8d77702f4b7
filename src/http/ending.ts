import type { CompletionAttributes, SpanResult } from '../tracing/index.ts';
import { ClientGone, HttpError } from './error.ts';

/**
 * The outcome of a response that did not complete.
 * @param sentStatus the status, where it was sent before the failure
 */
export function endingOf(
  failure: unknown,
  { firstTokenMs }: Pick<CompletionAttributes, 'firstTokenMs'>,
  sentStatus?: number,
): SpanResult {
  const statusMember = sentStatus === undefined ? {} : { status: sentStatus };
  if (failure instanceof ClientGone) return { outcome: 'abandoned', code: 'client_gone', ...statusMember };
  const { status, code = 'internal_error' } = failure instanceof HttpError ? failure : { status: 500 };
  // A client that stopped reading counts as disconnected.
  if (code === 'reader_stalled') return { outcome: 'abandoned', code, ...statusMember };
  const isClientFault = status < 500 || status === 501;
  const isRefused = isClientFault && firstTokenMs === undefined;
  return { outcome: isRefused ? 'refused' : 'failed', status: sentStatus ?? status, code };
}
