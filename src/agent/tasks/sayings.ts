import { endedEvent, oneLine } from '../last-event.ts';
import type { NewTurnEvent } from '../shapes/turn-event.ts';

/** Characters of a title, and of what a row says about the last event. */
const most = { title: 80, lastEvent: 200 };

/** One line for the feed; undefined: it does not change what was said. */
export function oneLiner(event: NewTurnEvent): string | undefined {
  switch (event.type) {
    case 'turn':
      return `turn ${event.n}`;
    case 'tool_call':
      return oneLine(`calls ${event.tool}`, most.lastEvent);
    case 'tool_result':
      return event.ok ? 'goes on' : 'a call was refused or failed';
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

/** A task by the beginning of its prompt. */
export const titleOf = (prompt: string): string => oneLine(prompt, most.title) || 'a task';
