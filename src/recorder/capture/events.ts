import type { SpanAttributes, TranscriptEntry, TraceSpan, TraceSpanKind } from '../../tracing/index.ts';
import type { NewEvent } from '../types.ts';
import { spanAttributes } from './attributes.ts';

/** Events of a span: its transcript in order, then the span itself. The policy decides how much of them is stored. */
export function spanEvents(work: TraceSpan): NewEvent[] {
  const subject = spanSubject(work);
  const key = spanEventId(work);
  const model = spanModel(work);
  const transcriptEvents = (work.transcript ?? []).map(({ at, role, text, name }, index): NewEvent => {
    const attributes = name === undefined ? undefined : { name };
    const { kind, as } = transcriptKinds[role];
    return {
      id: `${key}:${index}`,
      at: at.toISOString(),
      kind,
      subject,
      role: as,
      model,
      content: text,
      attributes,
    };
  });
  const at = new Date(work.startedAt.getTime() + (work.totalMs ?? 0)).toISOString();
  const attributes = spanAttributes(work, subject);
  return [...transcriptEvents, { id: key, at, kind: spanKinds[work.kind], subject, model, attributes }];
}

/** Subject of a span: for turns, tools and steps the task or run that they are part of. */
function spanSubject({ kind, id, parent }: TraceSpan): string {
  if (kind === 'completion' || kind === 'gateway' || parent === undefined) return id;
  return spanSubject(parent);
}

/**
 * Event id of a span, the same each time the span is recorded. It includes the start time because span ids can repeat:
 * a run's segments share one, task numbers start again in a new database, and a model may give two tool calls the same
 * id.
 */
const spanEventId = ({ kind, id, startedAt }: TraceSpan): string =>
  `${spanKinds[kind]}:${id}:${startedAt.getTime()}`;

function spanModel({ kind, attributes: facts }: TraceSpan): string | undefined {
  if (kind === 'gateway') return (facts as SpanAttributes['gateway']).effectiveModel;
  return 'model' in facts ? facts.model : undefined;
}

const spanKinds: Readonly<Record<TraceSpanKind, string>> = {
  completion: 'completion',
  task: 'task',
  run: 'run',
  step: 'step',
  turn: 'turn',
  tool: 'tool',
  gateway: 'request',
};

const transcriptKinds: Readonly<
  Record<TranscriptEntry['role'], { readonly kind: string; readonly as: string }>
> = {
  system: { kind: 'message', as: 'system' },
  user: { kind: 'message', as: 'user' },
  assistant: { kind: 'message', as: 'assistant' },
  reasoning: { kind: 'reasoning', as: 'assistant' },
  tool_call: { kind: 'tool_call', as: 'assistant' },
  tool: { kind: 'tool_result', as: 'tool' },
};
