/** The conversations of a page: messages, answers with versions, and the history. */
import { useSyncExternalStore } from 'react';
import { errorMessage } from '../../src/util/error-message.ts';
import type { History } from './history.ts';
import { mergeConversations, nextTurnId } from './merge.ts';
import {
  type Answer,
  type Conversation,
  isAnswering,
  type Message,
  pathOf,
  titleOf,
  type TurnPosition,
} from './tree.ts';

/** All conversations of this page. Answers go on while other views are shown. */
export interface ChatsState<Turn extends TurnPosition> {
  /** The last changed one first. */
  readonly conversations: readonly Conversation<Turn>[];
  /** The new conversation, before its first message. */
  readonly fresh: Conversation<Turn>;
  /** Whether the stored conversations have been read. */
  readonly isLoaded: boolean;
  readonly isHistoryEnabled: boolean;
  /** Why the history does not work in this browser. */
  readonly historyError?: string;
}

export interface ChatsOptions<User extends Message, Reply extends Answer, Request> {
  readonly history: History<User | Reply>;
  /** An answer before its first token. */
  readonly emptyAnswer: (position: TurnPosition, request: Request) => Reply;
  /** Yields the answer so far; the last one is complete. */
  readonly generate: (request: {
    readonly conversation: Conversation<User | Reply>;
    readonly answer: Reply;
    readonly request: Request;
    readonly signal: AbortSignal;
  }) => AsyncIterable<Reply>;
  readonly failedAnswer: (answer: Reply, error: unknown) => Reply;
  /** A copy, where `generate` adds to what it yielded. */
  readonly snapshot?: (answer: Reply) => Reply;
}

/** How often a growing answer is stored, in ms. */
const storeIntervalMs = 2000;

/** Calls back with the next frame; where no page is shown, soon. */
const nextFrame = (callback: () => void): void => {
  if (typeof requestAnimationFrame === 'undefined') setTimeout(callback);
  else requestAnimationFrame(callback);
};

export function createChats<User extends Message, Reply extends Answer, Request>(
  options: ChatsOptions<User, Reply, Request>,
) {
  type Turn = User | Reply;
  type State = ChatsState<Turn>;
  const { history, generate, emptyAnswer, failedAnswer, snapshot = (answer: Reply) => answer } = options;
  let state: State = {
    conversations: [],
    fresh: newConversation(),
    isLoaded: false,
    isHistoryEnabled: history.isEnabled,
  };
  const running = new Map<string, AbortController>();
  const listeners = new Set<() => void>();

  function update(next: Partial<State>): void {
    state = { ...state, ...next };
    for (const listener of listeners) listener();
  }

  let loading: Promise<void> | undefined;
  const load = (): Promise<void> => (loading ??= readAndWatch());

  async function readAndWatch(): Promise<void> {
    try {
      history.watch((change) => {
        if (change.type === 'stored') adopt([change.conversation]);
        else if (change.type === 'deleted') {
          stop(change.id);
          update({ conversations: state.conversations.filter(({ id }) => id !== change.id) });
        } else {
          update({ isHistoryEnabled: change.isEnabled });
          if (change.isEnabled) storeAll();
        }
      });
      adopt(await history.read());
      update({ isLoaded: true });
    } catch (error) {
      update({ historyError: errorMessage(error), isLoaded: true });
    }
  }

  /** Adds stored conversations, and turns that another tab added. */
  function adopt(stored: readonly Conversation<Turn>[]): void {
    const byId = new Map(state.conversations.map((one) => [one.id, one]));
    for (const theirs of stored) {
      const ours = byId.get(theirs.id);
      const { title, system } = theirs;
      byId.set(theirs.id, ours ? { ...mergeConversations(ours, theirs), title, system } : theirs);
    }
    update({ conversations: [...byId.values()].sort((a, b) => b.updatedAt - a.updatedAt) });
  }

  /** Runs an operation of the history, and reports its error. */
  const withHistory = (operation: Promise<void>): Promise<void> =>
    operation.catch((error: unknown) => update({ historyError: errorMessage(error) }));

  const find = (id: string): Conversation<Turn> | undefined =>
    id === state.fresh.id ? state.fresh : state.conversations.find((one) => one.id === id);

  /** Replaces a conversation; does nothing for a deleted one. */
  function replace(id: string, change: (before: Conversation<Turn>) => Partial<Conversation<Turn>>): void {
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
    if (conversation) void withHistory(history.write(conversation));
  }

  function storeAll(): void {
    for (const { id } of state.conversations) store(id);
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

  const stop = (id: string): void => running.get(id)?.abort();

  /** Adds a message and its answer. @returns resolves when the answer has ended */
  async function ask(id: string, parent: number, message: Omit<User, 'id' | 'parent'>, request: Request) {
    const conversation = find(id);
    if (!conversation) return;
    const question = { ...message, id: nextTurnId(conversation), parent } as unknown as User;
    const answer = emptyAnswer({ id: question.id + 1, parent: question.id }, request);
    addTurns(id, [question, answer]);
    await receive(id, answer, request);
  }

  /** Generates an answer into its turn; stops the answer in progress of the same conversation. */
  async function receive(id: string, empty: Reply, request: Request): Promise<void> {
    stop(id);
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
      const shown = snapshot(last);
      replace(id, ({ turns }) => ({ turns: turns.map((turn) => (turn.id === empty.id ? shown : turn)) }));
      if (performance.now() - storedAt < storeIntervalMs && isAnswering(last)) return;
      storedAt = performance.now();
      store(id);
    };
    store(id);
    try {
      for await (const next of generate({ conversation, answer: empty, request, signal })) {
        last = next;
        // At most one update per frame.
        if (isScheduled) continue;
        isScheduled = true;
        nextFrame(publish);
      }
      if (isAnswering(last)) last = { ...last, state: 'stopped' };
    } catch (error) {
      if (signal.aborted) last = { ...last, state: 'stopped' };
      else last = failedAnswer(last, error);
    }
    if (running.get(id) === controller) running.delete(id);
    publish();
  }

  const lastOf = (id: string): number => {
    const conversation = find(id);
    return (conversation && pathOf(conversation).at(-1)?.id) ?? 0;
  };

  return {
    get: (): State => state,

    subscribe(listener: () => void): () => void {
      listeners.add(listener);
      void load();
      return () => listeners.delete(listener);
    },

    /** Reads the history, and calls back with each change from now on. */
    load,

    setSystem(id: string, system: string): void {
      replace(id, () => ({ system }));
      store(id);
    },

    rename(id: string, title: string): void {
      replace(id, () => ({ title }));
      store(id);
    },

    delete(id: string): void {
      stop(id);
      update({ conversations: state.conversations.filter((one) => one.id !== id) });
      void withHistory(history.delete(id));
    },

    /** Deletes all conversations, also the stored ones. */
    async clear(): Promise<void> {
      for (const { id } of state.conversations) stop(id);
      update({ conversations: [] });
      await withHistory(history.clear());
    },

    stop,

    /** Sends a message after a turn; at the end of what is shown if none is given. */
    send: (id: string, message: Omit<User, 'id' | 'parent'>, request: Request, after?: TurnPosition) =>
      ask(id, after?.id ?? lastOf(id), message, request),

    /** Sends another version of a message. */
    edit: (id: string, turn: TurnPosition, message: Omit<User, 'id' | 'parent'>, request: Request) =>
      ask(id, turn.parent, message, request),

    /** Generates another version of an answer. */
    async regenerate(id: string, turn: Turn, request: Request): Promise<void> {
      const conversation = find(id);
      if (!conversation) return;
      const answer = emptyAnswer({ id: nextTurnId(conversation), parent: turn.parent }, request);
      // A failed answer without text is no version to return to.
      if (turn.role === 'assistant' && turn.state === 'failed' && turn.text === '')
        replace(id, ({ turns, removed = [] }) => ({
          turns: turns.filter((one) => one !== turn),
          removed: [...removed, turn.id],
        }));
      addTurns(id, [answer]);
      await receive(id, answer, request);
    },

    /** Shows a version of a turn. */
    choose(id: string, { parent, id: version }: TurnPosition): void {
      replace(id, ({ chosen }) => ({ chosen: { ...chosen, [parent]: version } }));
      store(id);
    },

    /** Enables the history and stores the conversations of this page, or disables it and deletes what is stored. */
    async enableHistory(isEnabled: boolean): Promise<void> {
      update({ isHistoryEnabled: isEnabled });
      await withHistory(history.enable(isEnabled));
      if (isEnabled) storeAll();
    },
  };
}

function newConversation(): Conversation<never> {
  // randomUUID() needs a secure context.
  const suffix = Math.floor(Math.random() * 36 ** 4).toString(36);
  const now = Date.now();
  return { id: now.toString(36) + suffix, title: '', system: '', turns: [], chosen: {}, updatedAt: now };
}

/** The conversations of a page, read again with each change. */
export const useChatsState = <Turn extends TurnPosition>(chats: {
  readonly get: () => ChatsState<Turn>;
  readonly subscribe: (listener: () => void) => () => void;
}): ChatsState<Turn> => useSyncExternalStore(chats.subscribe, chats.get);

/** Whether an answer is in progress. */
export const isBusy = ({ turns }: Pick<Conversation<Message | Answer>, 'turns'>): boolean =>
  turns.some(isAnswering);
