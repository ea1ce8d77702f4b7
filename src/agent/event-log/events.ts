import type { StoreReader, Tx } from '../../store/index.ts';

/** An event without its `seq` and time. */
export interface UnnumberedEvent {
  readonly type: string;
}

/** An event of a stream, with its `seq` and time. */
export type NumberedEvent<Event extends UnnumberedEvent = UnnumberedEvent> = Event & {
  readonly seq: number;
  readonly ts: string;
};

export async function insertEvent(tx: Tx, stream: string, line: NumberedEvent): Promise<void> {
  const { seq, ts } = line;
  await tx
    .insertInto('events')
    .values({ stream, seq, ts, event: JSON.stringify(withLeadingFields(line)) })
    .execute();
}

/** Reads the `seq` of the next event of a stream. */
export async function readNextSeq(db: StoreReader | Tx, stream: string): Promise<number> {
  const { last } = await db
    .selectFrom('events')
    .select(({ fn }) => fn.max('seq').as('last'))
    .where('stream', '=', stream)
    .executeTakeFirstOrThrow();
  return last === null ? 0 : last + 1;
}

/** Puts `type`, `seq` and `ts` first. */
function withLeadingFields({ type, seq, ts, ...rest }: NumberedEvent): object {
  const ordered = { type, seq, ts, ...rest };
  return isStepEvent(ordered)
    ? { ...ordered, event: withLeadingFields(ordered.event as NumberedEvent) }
    : ordered;
}

/** Merges two adjacent text deltas of the same kind, of a task or of one step; undefined when they cannot be merged. */
export function mergeDeltas<Event extends UnnumberedEvent>(before: Event, next: Event): Event | undefined {
  if (isTextDeltaEvent(before) && isTextDeltaEvent(next) && before.type === next.type)
    return { ...before, text: before.text + next.text };
  if (!isStepEvent(before) || !isStepEvent(next) || before.step !== next.step) return undefined;
  const event = mergeDeltas(before.event, next.event);
  return event && { ...before, event };
}

/** Whether an event is a text delta, which may wait for more text. */
export const isTextDelta = (event: UnnumberedEvent): boolean =>
  isTextDeltaEvent(event) || (isStepEvent(event) && isTextDeltaEvent(event.event));

/** Characters of a text delta. */
export const textLength = (event: UnnumberedEvent): number =>
  isTextDeltaEvent(event) ? event.text.length : isStepEvent(event) ? textLength(event.event) : 0;

interface TextDelta extends UnnumberedEvent {
  readonly text: string;
}
/** Wraps an event of a step's agent. The log numbers the inner event, too. */
interface StepEvent extends UnnumberedEvent {
  readonly step: string;
  readonly event: UnnumberedEvent;
}
const isTextDeltaEvent = (event: UnnumberedEvent): event is TextDelta =>
  event.type === 'delta' || event.type === 'reasoning';
const isStepEvent = (event: UnnumberedEvent): event is StepEvent => event.type === 'step_event';

/**
 * Position of a stream: the next `seq`, and for each started step the next `seq` of its agent's events, which have
 * their own count from 0.
 */
export interface StreamPosition {
  readonly next: number;
  readonly steps: Readonly<Record<string, number>>;
}

/** Numbers an event, and gives the position after it. */
export function numberEvent<Event extends UnnumberedEvent>(
  { next, steps }: StreamPosition,
  event: Event,
  ts: string,
): { readonly line: NumberedEvent<Event>; readonly after: StreamPosition } {
  const line = { ...event, seq: next, ts };
  if (event.type === 'step_start' && 'step' in event)
    return { line, after: { next: next + 1, steps: { ...steps, [String(event.step)]: 0 } } };
  if (!isStepEvent(event)) return { line, after: { next: next + 1, steps } };
  const seq = steps[event.step] ?? 0;
  return {
    line: { ...line, event: { ...event.event, seq, ts } },
    after: { next: next + 1, steps: { ...steps, [event.step]: seq + 1 } },
  };
}
