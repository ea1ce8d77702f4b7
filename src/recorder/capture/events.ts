import type { FactsOf, Said, Work, WorkKind } from '../../watch/index.ts';
import type { NewEvent } from '../types.ts';
import { attributesOf } from './attributes.ts';

/** What was said, in order, and then the work itself. How much of it is stored is the policy's. */
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

/** Turns, tools and steps are about the task or the run that they are part of. */
function subjectOf({ kind, id, parent }: Work): string {
  if (kind === 'completion' || kind === 'gateway' || parent === undefined) return id;
  return subjectOf(parent);
}

/**
 * The same whenever the same work is told again. With the time, because its id may come again: a run's segments share one,
 * tasks are counted anew in another database, and a model may give two calls of tools the same.
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
