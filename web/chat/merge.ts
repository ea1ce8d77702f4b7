/** Joins the copies of a conversation that two tabs have. */
import { type Answer, type Conversation, isAnswering, type Message } from './tree.ts';

/**
 * Joins what another tab stored with what this tab has. No turn is lost: turns have unique ids, and of a turn that both
 * have, the copy with more text is kept. A parent stays before its turns.
 * @param ours names, system prompt and chosen versions are taken from here
 */
export function mergeConversations<Turn extends Message | Answer>(
  ours: Conversation<Turn>,
  theirs: Conversation<Turn>,
): Conversation<Turn> {
  const removed = new Set([...(ours.removed ?? []), ...(theirs.removed ?? [])]);
  const turns = new Map<number, Turn>(theirs.turns.map((turn) => [turn.id, turn]));
  for (const turn of ours.turns) {
    const other = turns.get(turn.id);
    turns.set(turn.id, other === undefined ? turn : completer(turn, other));
  }
  return {
    ...ours,
    turns: [...turns.values()].filter(({ id }) => !removed.has(id)).sort((a, b) => a.id - b.id),
    ...(removed.size === 0 ? {} : { removed: [...removed] }),
    chosen: { ...theirs.chosen, ...ours.chosen },
    updatedAt: Math.max(ours.updatedAt, theirs.updatedAt),
  };
}

/** The copy of a turn that got further. Of two with the same text, a copy of a turn that another tab receives is older. */
function completer<Turn extends Message | Answer>(ours: Turn, theirs: Turn): Turn {
  if (ours.role === 'user' || theirs.role === 'user') return ours;
  if (theirs.text.length !== ours.text.length) return theirs.text.length > ours.text.length ? theirs : ours;
  return isForeign(ours) ? theirs : ours;
}

/**
 * Id of the next turn: greater than all of the conversation, and with a random part, so that turns which two tabs add at
 * the same time differ.
 */
export function nextTurnId({ turns }: Pick<Conversation<Message | Answer>, 'turns'>): number {
  const last = Math.max(0, ...turns.map(({ id }) => id));
  return (Math.floor(last / idStep) + 1) * idStep + Math.floor(Math.random() * idStep);
}
/** Ids grow by about this much, a number without meaning that leaves room for 2^31 turns. */
const idStep = 2 ** 21;

/** Finish reason of an answer whose page was closed. */
export const pageClosed = 'page_closed';
/** Finish reason of an answer that another tab is receiving. */
export const otherTab = 'other_tab';

/** Whether an answer was in progress when this tab read it: in another tab, or in a page that was closed. */
const isForeign = ({ state, finishReason }: Answer): boolean =>
  state === 'stopped' && (finishReason === otherTab || finishReason === pageClosed);

/** A stored turn as this tab shows it: an answer in progress is not in progress here. */
export const asStopped = <Turn extends Message | Answer>(turn: Turn, finishReason: string): Turn =>
  isAnswering(turn) ? { ...turn, state: 'stopped', finishReason } : turn;

/** The inverse for an answer that another tab receives. */
export function asReceived<Turn extends Message | Answer>(turn: Turn): Turn {
  if (turn.role === 'user' || !isForeign(turn) || turn.finishReason !== otherTab) return turn;
  const { finishReason: _, ...rest } = turn;
  return { ...rest, state: 'writing' } as Turn;
}
