import { useSyncExternalStore } from 'react';
import { asFault } from '../../api/fault.ts';
import { type Answer, isAnswering, type Turn } from './answer.ts';
import { complete } from './completion.ts';
import { messagesOf } from './messages.ts';

/** Of the page: it goes with it, and stands in no URL and no storage. */
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
    // Nor is what it had said so far to come back.
    stopping = undefined;
    become({ turns: [] });
  },

  stop: () => stopping?.abort(),

  /** Asks; an answer that is still on its way is stopped. */
  ask(text: string, sampling: SamplingBody): void {
    conversation.stop();
    void answer([...now.turns, { id: ++ids, role: 'user', text }], sampling);
  },

  /** What the question `id` is to say instead; what followed it goes. */
  edit(id: number, text: string, sampling: SamplingBody): void {
    conversation.stop();
    const at = now.turns.findIndex((turn) => turn.id === id);
    if (at >= 0) void answer([...now.turns.slice(0, at), { id: ++ids, role: 'user', text }], sampling);
  },

  /** Another answer in the place of `id`; what followed it goes. */
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
    // It may have been replaced, or taken away.
    if (stopping === controller) become({ turns: [...before, last] });
  };
  show();
  try {
    const messages = messagesOf(now.system, before);
    for await (const next of complete({ id: last.id, messages, sampling, signal })) {
      last = next;
      // More often than it can be drawn would only slow it down.
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

/** Whether something is on its way. */
export const isBusy = ({ turns }: Conversation): boolean => isAnswering(turns.at(-1));
