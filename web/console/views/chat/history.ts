/** Conversations in this browser's database. The host stores nothing of them. */
import { clear, createStore, del, set, type UseStore, values } from 'idb-keyval';
import { Fault } from '../../../api/fault.ts';
import type { Turn } from './answer.ts';
import type { Conversation } from './tree.ts';

/** Set in the local storage when the user does not want a history. */
const optOutKey = 'lathe-chat-history';

/** Finish reason of an answer whose page was closed. */
export const pageClosed = 'page_closed';

let store: UseStore | undefined;
const openStore = (): UseStore => (store ??= createStore('lathe-chat', 'conversations'));

export function isHistoryEnabled(): boolean {
  try {
    return localStorage.getItem(optOutKey) !== 'off';
  } catch {
    // Storage is blocked.
    return false;
  }
}

/** Enables the history, or disables it and deletes what is stored. @throws where the browser blocks storage */
export async function enableHistory(isEnabled: boolean): Promise<void> {
  if (isEnabled) return localStorage.removeItem(optOutKey);
  localStorage.setItem(optOutKey, 'off');
  await clear(openStore());
}

/** Stored conversations. An answer that was in progress when its page was closed has ended there. */
export async function readHistory(): Promise<Conversation[]> {
  if (!isHistoryEnabled()) return [];
  const stored: unknown[] = await values(openStore());
  return stored
    .filter(isConversation)
    .map((one) => Object.assign({}, one, { turns: one.turns.map(revived) }));
}

export async function storeConversation(conversation: Conversation): Promise<void> {
  if (!isHistoryEnabled()) return;
  const turns = conversation.turns.map(storable);
  await set(conversation.id, { ...conversation, turns }, openStore());
}

export const deleteConversation = (id: string): Promise<void> => del(id, openStore());

const isConversation = (value: unknown): value is Conversation => {
  const { id, title, system, turns, chosen } = (value ?? {}) as Partial<Record<keyof Conversation, unknown>>;
  return (
    typeof id === 'string' &&
    typeof title === 'string' &&
    typeof system === 'string' &&
    Array.isArray(turns) &&
    typeof chosen === 'object' &&
    chosen !== null
  );
};

/** A turn without the probabilities and times of its tokens, which are many times as large as its text. */
function storable(turn: Turn): Turn {
  if (turn.role === 'user') return turn;
  const { error, ...rest } = turn;
  const timing = { ...turn.timing, chunkTimes: [] };
  if (error === undefined) return { ...rest, tokens: [], timing };
  const { message, status, code, violations, requestId } = error as Fault;
  return { ...rest, tokens: [], timing, error: { message, status, code, violations, requestId } };
}

function revived(turn: Turn): Turn {
  if (turn.role === 'user') return turn;
  const isOver = turn.state !== 'waiting' && turn.state !== 'writing';
  const ended: Turn = isOver ? turn : { ...turn, state: 'stopped', finishReason: pageClosed };
  if (turn.error === undefined) return ended;
  const { message, ...rest } = turn.error as Fault;
  return { ...ended, error: new Fault(message, rest) };
}
