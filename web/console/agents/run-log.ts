import type { RunEvent, TurnEvent } from './schemas.ts';

type EventOf<Type extends RunEvent['type']> = Extract<RunEvent, { type: Type }>;

/** The parts of a run's event stream, in order. */
export type RunPart =
  | { readonly kind: 'start'; readonly seq: number; readonly event: EventOf<'run_start'> }
  | {
      readonly kind: 'step';
      readonly seq: number;
      readonly step: string;
      readonly attempt: number | undefined;
      readonly ts: string;
      readonly turns: TurnEvent[];
      /** The host stopped during this attempt; a later part is the next attempt. */
      isCut?: true;
      end?: EventOf<'step_end'>;
    }
  | { readonly kind: 'waiting'; readonly seq: number; readonly event: EventOf<'step_waiting'> }
  | { readonly kind: 'end'; readonly seq: number; readonly event: EventOf<'run_end'> };

/** Groups a run's events for display: the events of one attempt of a step form one part. */
export function buildRunLog(events: readonly RunEvent[]): readonly RunPart[] {
  const parts: RunPart[] = [];
  const findOpenPart = (step: string) => {
    const last = parts.findLast((part) => part.kind === 'step' && part.step === step);
    return last?.kind === 'step' && !last.end && !last.isCut ? last : undefined;
  };
  const addPart = (event: { seq: number; ts: string; step: string; attempt?: number }) => {
    const { seq, ts, step, attempt } = event;
    const part: Extract<RunPart, { kind: 'step' }> = { kind: 'step', seq, step, ts, attempt, turns: [] };
    parts.push(part);
    return part;
  };
  for (const event of events) {
    const { seq } = event;
    if (event.type === 'run_start') parts.push({ kind: 'start', seq, event });
    else if (event.type === 'step_start') {
      const interrupted = findOpenPart(event.step);
      if (interrupted) interrupted.isCut = true;
      addPart(event);
    } else if (event.type === 'step_waiting') parts.push({ kind: 'waiting', seq, event });
    else if (event.type === 'step_event')
      (findOpenPart(event.step) ?? addPart(event)).turns.push(event.event);
    // A skipped step has no start event.
    else if (event.type === 'step_end') (findOpenPart(event.step) ?? addPart(event)).end = event;
    else parts.push({ kind: 'end', seq, event });
  }
  return parts;
}
