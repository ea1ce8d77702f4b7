import type { Db, Tx } from '../../store/index.ts';

/** An event without its `seq` and time. */
export interface NewLine {
  readonly type: string;
}

/** An event of a stream, with its `seq` and time. */
export type Line<Event extends NewLine = NewLine> = Event & { readonly seq: number; readonly ts: string };

export async function insertLine(tx: Tx, stream: string, line: Line): Promise<void> {
  const { seq, ts } = line;
  await tx
    .insertInto('events')
    .values({ stream, seq, ts, event: JSON.stringify(inOrder(line)) })
    .execute();
}

/** Reads the `seq` of the next event of a stream. */
export async function nextSeqOf(db: Db | Tx, stream: string): Promise<number> {
  const { last } = await db
    .selectFrom('events')
    .select(({ fn }) => fn.max('seq').as('last'))
    .where('stream', '=', stream)
    .executeTakeFirstOrThrow();
  return last === null ? 0 : last + 1;
}

/** Puts `type`, `seq` and `ts` first. */
function inOrder({ type, seq, ts, ...rest }: Line): object {
  const told = { type, seq, ts, ...rest };
  return isStepEvent(told) ? { ...told, event: inOrder(told.event as Line) } : told;
}

/** Merges two adjacent text deltas of the same kind, of a task or of one step; undefined when they cannot be merged. */
export function joined<Event extends NewLine>(before: Event, next: Event): Event | undefined {
  if (isText(before) && isText(next) && before.type === next.type)
    return { ...before, text: before.text + next.text };
  if (!isStepEvent(before) || !isStepEvent(next) || before.step !== next.step) return undefined;
  const event = joined(before.event, next.event);
  return event && { ...before, event };
}

/** Whether an event is a text delta, which may wait for more text. */
export const isPiece = (event: NewLine): boolean =>
  isText(event) || (isStepEvent(event) && isText(event.event));

/** Characters of a text delta. */
export const lengthOf = (event: NewLine): number =>
  isText(event) ? event.text.length : isStepEvent(event) ? lengthOf(event.event) : 0;

interface Text extends NewLine {
  readonly text: string;
}
/** Wraps an event of a step's agent. The log numbers the inner event, too. */
interface StepEvent extends NewLine {
  readonly step: string;
  readonly event: NewLine;
}
const isText = (event: NewLine): event is Text => event.type === 'delta' || event.type === 'reasoning';
const isStepEvent = (event: NewLine): event is StepEvent => event.type === 'step_event';

/**
 * Position of a stream: the next `seq`, and for each started step the next `seq` of its agent's events, which have
 * their own count from 0.
 */
export interface Place {
  readonly next: number;
  readonly steps: Readonly<Record<string, number>>;
}

/** Numbers an event, and gives the position after it. */
export function place<Event extends NewLine>(
  { next, steps }: Place,
  event: Event,
  ts: string,
): { readonly line: Line<Event>; readonly after: Place } {
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
