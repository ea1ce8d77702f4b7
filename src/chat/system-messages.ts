import type { ChatTurn } from './types.ts';

/**
 * Arranges system messages for a template: joins them when it accepts only one, and moves them to user messages where
 * it accepts none.
 * @param toolDescription added after the leading system messages
 * @param getSupport where the template accepts system messages; called only when there are any
 */
export function arrangeSystemMessages(
  turns: readonly ChatTurn[],
  toolDescription: string | undefined,
  getSupport: () => { first: boolean; several: boolean; later: boolean },
): readonly ChatTurn[] {
  const firstOther = turns.findIndex(({ role }) => role !== 'system');
  const count = firstOther === -1 ? turns.length : firstOther;
  const followingTurns = turns.slice(count);
  const hasLater = followingTurns.some(({ role }) => role === 'system');
  if (count === 0 && !hasLater && toolDescription === undefined) return turns;
  const support = getSupport();
  const leadingTexts = turns.slice(0, count).map(({ content }) => content);
  if (toolDescription !== undefined) leadingTexts.push(toolDescription);
  const rest = support.later || !hasLater ? followingTurns : moveToUserMessages(followingTurns);
  if (!support.first) return moveToUserMessages([...leadingTexts.map(toSystem), ...rest]);
  if (toolDescription === undefined && (count < 2 || support.several))
    return [...turns.slice(0, count), ...rest];
  return leadingTexts.length === 0 ? rest : [toSystem(leadingTexts.join('\n\n')), ...rest];
}

const toSystem = (content: string): ChatTurn => ({ role: 'system', content });

/** Moves system messages into the next user message. */
function moveToUserMessages(turns: readonly ChatTurn[]): ChatTurn[] {
  const result: ChatTurn[] = [];
  let pendingTexts: string[] = [];
  const flushPending = () => {
    if (pendingTexts.length > 0) result.push({ role: 'user', content: pendingTexts.join('\n\n') });
    pendingTexts = [];
  };
  for (const turn of turns) {
    if (turn.role === 'system') {
      pendingTexts.push(turn.content);
    } else if (turn.role === 'user') {
      result.push({ ...turn, content: [...pendingTexts, turn.content].join('\n\n') });
      pendingTexts = [];
    } else {
      flushPending();
      result.push(turn);
    }
  }
  flushPending();
  return result;
}
