import { type CompletionFacts, traceparentOf, type TurnFacts, type Work } from '../watch/index.ts';
import { figure, name, type RowOf } from './rows.ts';

type Row = RowOf<'completions'>;

/** Row of a completion or of an agent's turn; undefined for other spans. */
export function rowOf(work: Work): Row | undefined {
  if (work.kind === 'completion') {
    const facts = work.facts as CompletionFacts;
    return {
      ...common(work, facts),
      wire: facts.wire,
      operation: facts.operation,
      by: facts.by,
      engine: 'resident',
      stream: facts.stream ? 1 : 0,
      requested_model: name(facts.requestedModel),
      answers: figure(facts.answers),
      cached_tokens: figure(facts.cachedTokens),
      queued_ms: time(facts.queuedMs),
      prefill_ms: time(facts.prefillMs),
      decode_ms: time(facts.decodeMs),
      subject: null,
      agent: null,
    };
  }
  if (work.kind !== 'turn') return undefined;
  const facts = work.facts as TurnFacts;
  return {
    ...common(work, facts),
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
    subject: subjectOf(work) ?? null,
    agent: facts.agent,
  };
}

function common(work: Work, facts: CompletionFacts | TurnFacts) {
  const { id, startedAt, totalMs = 0, ending, traceparent } = work;
  return {
    id,
    model: name(facts.model),
    outcome: ending?.outcome ?? 'failed',
    status: figure(ending?.status),
    code: name(ending?.code),
    finish: name(facts.finish),
    started_at: startedAt.toISOString(),
    ended_at: new Date(startedAt.getTime() + totalMs).toISOString(),
    prompt_tokens: figure(facts.promptTokens),
    completion_tokens: figure(facts.completionTokens),
    first_token_ms: time(facts.firstTokenMs),
    total_ms: time(totalMs),
    trace_id: traceparentOf(traceparent)?.split('-')[1] ?? null,
  };
}

/** Rounds to microseconds. */
function time(ms: number | undefined): number | null {
  const known = figure(ms);
  return known === null ? null : Math.round(known * 1000) / 1000;
}

/** Id of the task or run that a span belongs to. */
function subjectOf({ parent }: Work): string | undefined {
  if (!parent || parent.kind === 'task' || parent.kind === 'run') return parent?.id;
  return subjectOf(parent);
}
