import { useSyncExternalStore } from 'react';
import { asFault } from '../../../api/fault.ts';
import { errorMessage } from '../../../../src/util/error-message.ts';
import {
  type AssistantTurn,
  emptyAnswer,
  isAnswering,
  type ToolResult,
  type Turn,
  type UserTurn,
} from './answer.ts';
import { streamCompletion } from './completion.ts';
import {
  deleteConversation,
  enableHistory,
  isHistoryEnabled,
  readHistory,
  storeConversation,
} from './history.ts';
import { messagesOf } from './messages.ts';
import { type Conversation, nextTurnId, pathBefore, pathOf, titleOf } from './tree.ts';

/** All conversations of this page. Answers go on while other views are shown. */
interface Chats {
  /** The last changed one first. */
  readonly conversations: readonly Conversation[];
  /** The new conversation, before its first message. */
  readonly fresh: Conversation;
  /** Whether the stored conversations have been read. */
  readonly isLoaded: boolean;
  readonly isHistoryEnabled: boolean;
  /** Why the history does not work in this browser. */
  readonly historyError?: string;
}

type SamplingBody = Readonly<Record<string, unknown>>;

/** How often a growing answer is stored, in ms. */
const storeIntervalMs = 2000;

let state: Chats = {
  conversations: [],
  fresh: newConversation(),
  isLoaded: false,
  isHistoryEnabled: isHistoryEnabled(),
};
const running = new Map<string, AbortController>();
const listeners = new Set<() => void>();

function update(next: Partial<Chats>): void {
  state = { ...state, ...next };
  for (const listener of listeners) listener();
}

export const useChats = (): Chats =>
  useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      void load();
      return () => listeners.delete(listener);
    },
    () => state,
  );

function newConversation(): Conversation {
  // randomUUID() needs a secure context.
  const suffix = Math.floor(Math.random() * 36 ** 4).toString(36);
  const now = Date.now();
  return { id: now.toString(36) + suffix, title: '', system: '', turns: [], chosen: {}, updatedAt: now };
}

let loading: Promise<void> | undefined;
const load = (): Promise<void> =>
  (loading ??= readHistory().then(
    (stored) => {
      const known = new Set(state.conversations.map(({ id }) => id));
      const read = stored.filter(({ id }) => !known.has(id)).sort((a, b) => b.updatedAt - a.updatedAt);
      update({ conversations: [...state.conversations, ...read], isLoaded: true });
    },
    (error: unknown) => update({ historyError: errorMessage(error), isLoaded: true }),
  ));

/** Runs an operation of the history, and reports its error. */
const withHistory = (operation: Promise<void>): Promise<void> =>
  operation.catch((error: unknown) => update({ historyError: errorMessage(error) }));

const find = (id: string): Conversation | undefined =>
  id === state.fresh.id ? state.fresh : state.conversations.find((one) => one.id === id);

/** Replaces a conversation; does nothing for a deleted one. */
function replace(id: string, change: (before: Conversation) => Partial<Conversation>): void {
  const before = find(id);
  if (!before) return;
  const after = { ...before, ...change(before) };
  if (id === state.fresh.id) update({ fresh: after });
  else
    update({
      conversations: state.conversations.map((one) => (one.id === id ? after : one)),
    });
}

function store(id: string): void {
  const conversation = state.conversations.find((one) => one.id === id);
  if (conversation) void withHistory(storeConversation(conversation));
}

/** Adds turns to a conversation and shows them; the conversation moves to the beginning of the list. */
function addTurns(id: string, added: readonly Turn[]): void {
  const before = find(id);
  if (!before) return;
  const title = before.title || titleOf(added.find(({ role }) => role === 'user')?.text ?? '');
  const chosen = Object.fromEntries(added.map((turn) => [turn.parent, turn.id]));
  const after = {
    ...before,
    title,
    turns: [...before.turns, ...added],
    chosen: { ...before.chosen, ...chosen },
    updatedAt: Date.now(),
  };
  update({
    conversations: [after, ...state.conversations.filter((one) => one.id !== id)],
    ...(id === state.fresh.id ? { fresh: newConversation() } : {}),
  });
}

export const chats = {
  setSystem(id: string, system: string): void {
    replace(id, () => ({ system }));
    store(id);
  },

  rename(id: string, title: string): void {
    replace(id, () => ({ title }));
    store(id);
  },

  delete(id: string): void {
    chats.stop(id);
    update({ conversations: state.conversations.filter((one) => one.id !== id) });
    void withHistory(deleteConversation(id));
  },

  stop: (id: string) => running.get(id)?.abort(),

  /** Sends a message at the end of what is shown. */
  send(id: string, text: string, sampling: SamplingBody): void {
    const conversation = find(id);
    if (conversation) ask(conversation, pathOf(conversation).at(-1)?.id ?? 0, text, sampling);
  },

  /** Sends the results of the tool calls of an answer. */
  sendResults(id: string, turn: Turn, results: readonly ToolResult[], sampling: SamplingBody): void {
    const conversation = find(id);
    if (conversation) ask(conversation, turn.id, '', sampling, results);
  },

  /** Sends another version of a message. */
  edit(id: string, turn: Turn, text: string, sampling: SamplingBody): void {
    const conversation = find(id);
    if (conversation) ask(conversation, turn.parent, text, sampling);
  },

  /** Generates another version of an answer. */
  regenerate(id: string, turn: Turn, sampling: SamplingBody): void {
    const conversation = find(id);
    if (!conversation) return;
    const answer = emptyAnswer({ id: nextTurnId(conversation), parent: turn.parent }, sampling);
    // A failed answer without text is no version to return to.
    if (turn.role === 'assistant' && turn.state === 'failed' && turn.text === '')
      replace(id, ({ turns }) => ({ turns: turns.filter((one) => one !== turn) }));
    addTurns(id, [answer]);
    void generate(id, answer);
  },

  /** Shows a version of a turn. */
  choose(id: string, { parent, id: version }: Turn): void {
    replace(id, ({ chosen }) => ({ chosen: { ...chosen, [parent]: version } }));
    store(id);
  },

  /** Enables the history and stores the conversations of this page, or disables it and deletes what is stored. */
  async enableHistory(isEnabled: boolean): Promise<void> {
    update({ isHistoryEnabled: isEnabled });
    await withHistory(enableHistory(isEnabled));
    if (isEnabled) for (const { id } of state.conversations) store(id);
  },
};

function ask(
  conversation: Conversation,
  parent: number,
  text: string,
  sampling: SamplingBody,
  toolResults?: readonly ToolResult[],
): void {
  const question: UserTurn = {
    id: nextTurnId(conversation),
    parent,
    role: 'user',
    text,
    ...(toolResults ? { toolResults } : {}),
  };
  const answer = emptyAnswer({ id: question.id + 1, parent: question.id }, sampling);
  addTurns(conversation.id, [question, answer]);
  void generate(conversation.id, answer);
}

/** Generates an answer into its turn; stops the answer in progress of the same conversation. */
async function generate(id: string, empty: AssistantTurn): Promise<void> {
  chats.stop(id);
  const controller = new AbortController();
  running.set(id, controller);
  const { signal } = controller;
  const conversation = find(id);
  if (!conversation) return;
  let last = empty;
  let storedAt = performance.now();
  let isScheduled = false;
  const publish = () => {
    isScheduled = false;
    // Copies, because the stream adds to its arrays.
    const { tokens, timing } = last;
    const shown = {
      ...last,
      tokens: tokens.slice(),
      timing: { ...timing, chunkTimes: timing.chunkTimes.slice() },
    };
    replace(id, ({ turns }) => ({ turns: turns.map((turn) => (turn.id === empty.id ? shown : turn)) }));
    if (performance.now() - storedAt < storeIntervalMs && isAnswering(last)) return;
    storedAt = performance.now();
    store(id);
  };
  store(id);
  try {
    const messages = messagesOf(conversation.system, pathBefore(conversation, empty));
    for await (const next of streamCompletion({ answer: empty, messages, signal })) {
      last = next;
      // At most one update per frame.
      if (isScheduled) continue;
      isScheduled = true;
      requestAnimationFrame(publish);
    }
  } catch (error) {
    last = signal.aborted
      ? { ...last, state: 'stopped' }
      : { ...last, state: 'failed', error: asFault(error) };
  }
  if (running.get(id) === controller) running.delete(id);
  publish();
}

/** Whether an answer is in progress. */
export const isBusy = ({ turns }: Conversation): boolean => turns.some(isAnswering);
