import { useSyncExternalStore } from 'react';
import { asFault } from '../../api/fault.ts';
import { type Answer, isAnswering, type Turn } from './answer.ts';
import { complete } from './completion.ts';
import { messagesOf } from './messages.ts';

/** The conversation of this page. It is kept in memory only, neither in the URL nor in storage. */
interface Conversation {
  readonly system: string;
  readonly turns: readonly Turn[];
}

let now: Conversation = { system: '', turns: [] };
let ids = 0;
let stopping: AbortController | undefined;
const listeners = new Set<() => void>();

function become(next: Partial<Conversation>): void {
  now = { ...now, ...next };
  for (const listener of listeners) listener();
}

export const useConversation = (): Conversation =>
  useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => now,
  );

type SamplingBody = Readonly<Record<string, unknown>>;

export const conversation = {
  setSystem: (system: string) => become({ system }),

  clear(): void {
    conversation.stop();
    // A late update of the stopped answer is ignored.
    stopping = undefined;
    become({ turns: [] });
  },

  stop: () => stopping?.abort(),

  /** Sends a message; stops an answer in progress. */
  ask(text: string, sampling: SamplingBody): void {
    conversation.stop();
    void answer([...now.turns, { id: ++ids, role: 'user', text }], sampling);
  },

  /** Replaces the question `id` and removes the turns after it. */
  edit(id: number, text: string, sampling: SamplingBody): void {
    conversation.stop();
    const at = now.turns.findIndex((turn) => turn.id === id);
    if (at >= 0) void answer([...now.turns.slice(0, at), { id: ++ids, role: 'user', text }], sampling);
  },

  /** Regenerates the answer `id` and removes the turns after it. */
  again(id: number, sampling: SamplingBody): void {
    conversation.stop();
    const at = now.turns.findIndex((turn) => turn.id === id);
    if (at > 0) void answer(now.turns.slice(0, at), sampling);
  },
};

async function answer(before: readonly Turn[], sampling: SamplingBody): Promise<void> {
  const controller = new AbortController();
  stopping = controller;
  const { signal } = controller;
  let last: Answer = {
    id: ++ids,
    role: 'assistant',
    text: '',
    thought: '',
    tokens: [],
    timing: { pieces: [] },
    state: 'waiting',
  };
  let frame = 0;
  const show = () => {
    cancelAnimationFrame(frame);
    // The answer may have been replaced or removed.
    if (stopping === controller) become({ turns: [...before, last] });
  };
  show();
  try {
    const messages = messagesOf(now.system, before);
    for await (const next of complete({ id: last.id, messages, sampling, signal })) {
      last = next;
      // At most one update per frame.
      cancelAnimationFrame(frame);
      frame = requestAnimationFrame(show);
    }
  } catch (error) {
    last = signal.aborted
      ? { ...last, state: 'stopped' }
      : { ...last, state: 'failed', error: asFault(error) };
  }
  show();
}

/** Whether an answer is in progress. */
export const isBusy = ({ turns }: Conversation): boolean => isAnswering(turns.at(-1));
