import type { FactsOf, Said, Work, WorkKind } from '../../watch/index.ts';
import type { NewEvent } from '../types.ts';
import { attributesOf } from './attributes.ts';

/** Events of a span: its transcript in order, then the span itself. The policy decides how much of them is stored. */
export function eventsOf(work: Work): NewEvent[] {
  const subject = subjectOf(work);
  const key = keyOf(work);
  const model = modelOf(work);
  const said = (work.said ?? []).map(({ at, role, text, name }, index): NewEvent => {
    const attributes = name === undefined ? undefined : { name };
    const { kind, as } = saidAs[role];
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
  const attributes = attributesOf(work, subject);
  return [...said, { id: key, at, kind: kinds[work.kind], subject, model, attributes }];
}

/** Subject of a span: for turns, tools and steps the task or run that they are part of. */
function subjectOf({ kind, id, parent }: Work): string {
  if (kind === 'completion' || kind === 'gateway' || parent === undefined) return id;
  return subjectOf(parent);
}

/**
 * Event id of a span, the same each time the span is recorded. It includes the start time because span ids can repeat:
 * a run's segments share one, task numbers start again in a new database, and a model may give two tool calls the same
 * id.
 */
const keyOf = ({ kind, id, startedAt }: Work): string => `${kinds[kind]}:${id}:${startedAt.getTime()}`;

function modelOf({ kind, facts }: Work): string | undefined {
  if (kind === 'gateway') return (facts as FactsOf['gateway']).effectiveModel;
  return 'model' in facts ? facts.model : undefined;
}

const kinds: Readonly<Record<WorkKind, string>> = {
  completion: 'completion',
  task: 'task',
  run: 'run',
  step: 'step',
  turn: 'turn',
  tool: 'tool',
  gateway: 'request',
};

const saidAs: Readonly<Record<Said['role'], { readonly kind: string; readonly as: string }>> = {
  system: { kind: 'message', as: 'system' },
  user: { kind: 'message', as: 'user' },
  assistant: { kind: 'message', as: 'assistant' },
  reasoning: { kind: 'reasoning', as: 'assistant' },
  tool_call: { kind: 'tool_call', as: 'assistant' },
  tool: { kind: 'tool_result', as: 'tool' },
};
