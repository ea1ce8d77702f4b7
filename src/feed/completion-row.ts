import {
  type CompletionAttributes,
  parseTraceparent,
  type TurnAttributes,
  type TraceSpan,
} from '../tracing/index.ts';
import { finiteOrNull, truncateText, type SurfaceRow } from './rows.ts';

type Row = SurfaceRow<'completions'>;

/** Row of a completion or of an agent's turn; undefined for other spans. */
export function toCompletionRow(span: TraceSpan): Row | undefined {
  if (span.kind === 'completion') {
    const facts = span.attributes as CompletionAttributes;
    return {
      ...commonColumns(span, facts),
      wire: facts.wire,
      operation: facts.operation,
      by: facts.by,
      engine: 'resident',
      stream: facts.stream ? 1 : 0,
      requested_model: truncateText(facts.requestedModel),
      answers: finiteOrNull(facts.answers),
      cached_tokens: finiteOrNull(facts.cachedTokens),
      queued_ms: roundMs(facts.queuedMs),
      prefill_ms: roundMs(facts.prefillMs),
      decode_ms: roundMs(facts.decodeMs),
      subject: null,
      agent: null,
    };
  }
  if (span.kind !== 'turn') return undefined;
  const facts = span.attributes as TurnAttributes;
  return {
    ...commonColumns(span, facts),
    wire: 'agent',
    operation: 'chat',
    by: `agent:${facts.agent}`,
    engine: facts.engine,
    // Agents always stream.
    stream: 1,
    requested_model: null,
    answers: 1,
    cached_tokens: null,
    queued_ms: null,
    prefill_ms: null,
    decode_ms: null,
    subject: findSubjectId(span) ?? null,
    agent: facts.agent,
  };
}

function commonColumns(span: TraceSpan, facts: CompletionAttributes | TurnAttributes) {
  const { id, startedAt, totalMs = 0, result: ending, traceparent } = span;
  return {
    id,
    model: truncateText(facts.model),
    outcome: ending?.outcome ?? 'failed',
    status: finiteOrNull(ending?.status),
    code: truncateText(ending?.code),
    finish: truncateText(facts.finish),
    started_at: startedAt.toISOString(),
    ended_at: new Date(startedAt.getTime() + totalMs).toISOString(),
    prompt_tokens: finiteOrNull(facts.promptTokens),
    completion_tokens: finiteOrNull(facts.completionTokens),
    first_token_ms: roundMs(facts.firstTokenMs),
    total_ms: roundMs(totalMs),
    trace_id: parseTraceparent(traceparent)?.split('-')[1] ?? null,
  };
}

/** Rounds to microseconds. */
export function roundMs(ms: number | undefined): number | null {
  const finiteMs = finiteOrNull(ms);
  return finiteMs === null ? null : Math.round(finiteMs * 1000) / 1000;
}

/** Id of the task or run that a span belongs to. */
export function findSubjectId({ parent }: TraceSpan): string | undefined {
  if (!parent || parent.kind === 'task' || parent.kind === 'run') return parent?.id;
  return findSubjectId(parent);
}
