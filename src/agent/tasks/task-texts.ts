import { describeOutcome, toSingleLine } from '../last-event.ts';
import type { NewTurnEvent } from '../shapes/turn-event.ts';

/** Maximum characters of a title and of `last_event`. */
const maxLengths = { title: 80, lastEvent: 200 };

/** `last_event` text of an event; undefined when the event does not change it. */
export function describeTurnEvent(event: NewTurnEvent): string | undefined {
  switch (event.type) {
    case 'turn':
      return `turn ${event.n}`;
    case 'tool_call':
      return toSingleLine(`calls ${event.tool}`, maxLengths.lastEvent);
    case 'tool_result':
      return event.ok ? 'continues' : 'a call was refused or failed';
    case 'staged':
      return toSingleLine(`${event.pending_id} waits for a person: ${event.summary}`, maxLengths.lastEvent);
    case 'answer':
      return describeOutcome('completed');
    case 'waiting':
      return `waits for a person: ${event.pending_id}`;
    case 'message':
      return toSingleLine(`continues: ${event.prompt}`, maxLengths.lastEvent);
    case 'aborted':
      return event.reason === 'cancelled'
        ? describeOutcome('cancelled')
        : describeOutcome('failed', event.message);
    case 'start':
    case 'resumed':
    case 'compacted':
    case 'retrying':
    case 'delta':
    case 'reasoning':
    case 'tool_output':
    case 'usage':
      return undefined;
  }
}

/** Title of a task: the beginning of its prompt. */
export const taskTitle = (prompt: string): string => toSingleLine(prompt, maxLengths.title) || 'a task';
