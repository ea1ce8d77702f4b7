import { endedEvent, oneLine } from '../last-event.ts';
import type { NewTurnEvent } from '../shapes/turn-event.ts';

/** Maximum characters of a title and of `last_event`. */
const most = { title: 80, lastEvent: 200 };

/** `last_event` text of an event; undefined when the event does not change it. */
export function oneLiner(event: NewTurnEvent): string | undefined {
  switch (event.type) {
    case 'turn':
      return `turn ${event.n}`;
    case 'tool_call':
      return oneLine(`calls ${event.tool}`, most.lastEvent);
    case 'tool_result':
      return event.ok ? 'continues' : 'a call was refused or failed';
    case 'staged':
      return oneLine(`${event.pending_id} waits for a person: ${event.summary}`, most.lastEvent);
    case 'answer':
      return endedEvent('completed');
    case 'aborted':
      return endedEvent('failed', event.message);
    case 'start':
    case 'delta':
    case 'reasoning':
    case 'usage':
      return undefined;
  }
}

/** Title of a task: the beginning of its prompt. */
export const titleOf = (prompt: string): string => oneLine(prompt, most.title) || 'a task';
