import {
  type AttemptEvent,
  parseTraceparent,
  type ToolCallAttributes,
  type TraceSpan,
} from '../tracing/index.ts';
import { findSubjectId, roundMs } from './completion-row.ts';
import { type SurfaceRow, truncateText } from './rows.ts';

type Row = SurfaceRow<'spans'>;

/** Row of a tool call; undefined for other spans. */
export function toToolRow(span: TraceSpan): Row | undefined {
  if (span.kind !== 'tool') return undefined;
  const { tool, agent } = span.attributes as ToolCallAttributes;
  const { id, startedAt, totalMs = 0, result, traceparent } = span;
  return {
    id,
    kind: 'tool',
    name: truncateText(tool) ?? '',
    outcome: result?.outcome ?? 'failed',
    ...times(startedAt, totalMs),
    request_id: null,
    subject: findSubjectId(span) ?? null,
    agent,
    model: null,
    code: truncateText(result?.code),
    trace_id: parseTraceparent(traceparent)?.split('-')[1] ?? null,
    attempt: null,
    response_ms: null,
    retry_ms: null,
  };
}

/** Row of an attempt at a provider that has just ended; undefined where nothing was sent. */
export function toAttemptRow(event: AttemptEvent, endedAt = new Date()): Row | undefined {
  const { requestId, provider, model, attemptNumber, responseMs, elapsedMs, failure, retryDelayMs } = event;
  if (elapsedMs === undefined) return undefined;
  const attempt = attemptNumber + 1;
  return {
    id: `${requestId}:attempt:${attempt}`,
    kind: 'attempt',
    name: truncateText(provider) ?? '',
    outcome: failure ? 'failed' : 'ok',
    ...times(new Date(endedAt.getTime() - elapsedMs), elapsedMs),
    request_id: requestId,
    subject: null,
    agent: null,
    model: truncateText(model),
    code: truncateText(failure?.code),
    trace_id: null,
    attempt,
    response_ms: roundMs(responseMs),
    retry_ms: roundMs(retryDelayMs),
  };
}

const times = (startedAt: Date, totalMs: number) => ({
  started_at: startedAt.toISOString(),
  ended_at: new Date(startedAt.getTime() + totalMs).toISOString(),
  total_ms: roundMs(totalMs),
});
