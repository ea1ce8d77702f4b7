import type { ChatTurn } from './types.ts';

/**
 * Arranges system messages for a template: joins them when it accepts only one, and moves them to user messages where
 * it accepts none.
 * @param toolDescription added after the leading system messages
 * @param getSupport where the template accepts system messages; called only when there are any
 */
export function arrangeSystems(
  turns: readonly ChatTurn[],
  described: string | undefined,
  places: () => { first: boolean; several: boolean; later: boolean },
): readonly ChatTurn[] {
  const leading = turns.findIndex(({ role }) => role !== 'system');
  const count = leading === -1 ? turns.length : leading;
  const others = turns.slice(count);
  const hasLater = others.some(({ role }) => role === 'system');
  if (count === 0 && !hasLater && described === undefined) return turns;
  const takes = places();
  const first = turns.slice(0, count).map(({ content }) => content);
  if (described !== undefined) first.push(described);
  const later = takes.later || !hasLater ? others : told(others);
  if (!takes.first) return told([...first.map(toSystem), ...later]);
  if (described === undefined && (count < 2 || takes.several)) return [...turns.slice(0, count), ...later];
  return first.length === 0 ? later : [toSystem(first.join('\n\n')), ...later];
}

const toSystem = (content: string): ChatTurn => ({ role: 'system', content });

/** Moves system messages into the next user message. */
function told(turns: readonly ChatTurn[]): ChatTurn[] {
  const result: ChatTurn[] = [];
  let waiting: string[] = [];
  const tell = () => {
    if (waiting.length > 0) result.push({ role: 'user', content: waiting.join('\n\n') });
    waiting = [];
  };
  for (const turn of turns) {
    if (turn.role === 'system') {
      waiting.push(turn.content);
    } else if (turn.role === 'user') {
      result.push({ ...turn, content: [...waiting, turn.content].join('\n\n') });
      waiting = [];
    } else {
      tell();
      result.push(turn);
    }
  }
  tell();
  return result;
}
