import { useSyncExternalStore } from 'react';
import { asFault } from '../../api/fault.ts';
import { type AssistantTurn, isAnswering, type Turn } from './answer.ts';
import { streamCompletion } from './completion.ts';
import { messagesOf } from './messages.ts';

/** The conversation of this page. It is kept in memory only, neither in the URL nor in storage. */
interface Conversation {
  readonly system: string;
  readonly turns: readonly Turn[];
}

let state: Conversation = { system: '', turns: [] };
let lastId = 0;
let currentAbort: AbortController | undefined;
const listeners = new Set<() => void>();

function update(next: Partial<Conversation>): void {
  state = { ...state, ...next };
  for (const listener of listeners) listener();
}

export const useConversation = (): Conversation =>
  useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => state,
  );

type SamplingBody = Readonly<Record<string, unknown>>;

export const conversation = {
  setSystem: (system: string) => update({ system }),

  clear(): void {
    conversation.stop();
    // A late update of the stopped answer is ignored.
    currentAbort = undefined;
    update({ turns: [] });
  },

  stop: () => currentAbort?.abort(),

  /** Sends a message; stops an answer in progress. */
  send(text: string, sampling: SamplingBody): void {
    conversation.stop();
    void generateAnswer([...state.turns, { id: ++lastId, role: 'user', text }], sampling);
  },

  /** Replaces the question `id` and removes the turns after it. */
  edit(id: number, text: string, sampling: SamplingBody): void {
    conversation.stop();
    const at = state.turns.findIndex((turn) => turn.id === id);
    if (at >= 0)
      void generateAnswer([...state.turns.slice(0, at), { id: ++lastId, role: 'user', text }], sampling);
  },

  /** Regenerates the answer `id` and removes the turns after it. */
  regenerate(id: number, sampling: SamplingBody): void {
    conversation.stop();
    const at = state.turns.findIndex((turn) => turn.id === id);
    if (at > 0) void generateAnswer(state.turns.slice(0, at), sampling);
  },
};

async function generateAnswer(before: readonly Turn[], sampling: SamplingBody): Promise<void> {
  const controller = new AbortController();
  currentAbort = controller;
  const { signal } = controller;
  let last: AssistantTurn = {
    id: ++lastId,
    role: 'assistant',
    text: '',
    reasoning: '',
    tokens: [],
    timing: { chunkTimes: [] },
    state: 'waiting',
  };
  let frame = 0;
  const publish = () => {
    cancelAnimationFrame(frame);
    // The answer may have been replaced or removed.
    if (currentAbort === controller) update({ turns: [...before, last] });
  };
  publish();
  try {
    const messages = messagesOf(state.system, before);
    for await (const next of streamCompletion({ id: last.id, messages, sampling, signal })) {
      last = next;
      // At most one update per frame.
      cancelAnimationFrame(frame);
      frame = requestAnimationFrame(publish);
    }
  } catch (error) {
    last = signal.aborted
      ? { ...last, state: 'stopped' }
      : { ...last, state: 'failed', error: asFault(error) };
  }
  publish();
}

/** Whether an answer is in progress. */
export const isBusy = ({ turns }: Conversation): boolean => isAnswering(turns.at(-1));
