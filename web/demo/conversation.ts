import { errorMessage } from '../../src/util/error-message.ts';
import { createStore, type Store } from './store.ts';
import type { Sampling } from './settings.ts';

export interface Message {
  readonly role: 'system' | 'user' | 'assistant';
  readonly content: string;
}

/** Token counts and timings of one answer, measured by the engine. */
export interface Measured {
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly completionTokens: number;
  readonly prefillMs: number;
  readonly decodeMs: number;
  readonly tokensPerSecond: number | undefined;
}

interface Piece {
  readonly text?: string;
  /** Reasoning text before the answer. */
  readonly thought?: string;
  readonly finish?: 'stop' | 'length';
  readonly measured?: Measured;
}

/** An engine with a loaded model. */
export interface Answerer {
  readonly engine: string;
  readonly model: string;
  readonly ask: (
    messages: readonly Message[],
    sampling: Sampling,
    signal: AbortSignal,
  ) => AsyncIterable<Piece>;
}

export interface Answer {
  readonly engine: string;
  readonly model: string;
  readonly state: 'waiting' | 'writing' | 'done' | 'stopped' | 'failed';
  readonly text: string;
  readonly thought: string;
  readonly finish?: 'stop' | 'length';
  readonly measured?: Measured;
  readonly fault?: string;
}

export interface Turn {
  readonly id: number;
  readonly prompt: string;
  readonly answers: readonly Answer[];
}

export interface Conversation {
  readonly store: Store<{ readonly turns: readonly Turn[]; readonly isBusy: boolean }>;
  /**
   * Sends the prompt to all engines, one after the other: in parallel they would share the GPU and distort the timings.
   */
  readonly ask: (prompt: string, about: Asked) => Promise<void>;
  readonly stop: () => void;
  readonly clear: () => void;
}

interface Asked {
  readonly system: string;
  readonly sampling: Sampling;
  readonly answerers: readonly Answerer[];
}

/** Minimum time between two updates of a growing answer; more updates would slow the model down. */
const showEveryMs = 30;

const isOver = ({ state }: Answer) => state === 'done' || state === 'stopped';

/** Messages of the request. All engines get the same history, which has the answers of the first one. */
export function messagesOf(turns: readonly Turn[], system: string): readonly Message[] {
  const said = turns.flatMap(({ prompt, answers }): readonly Message[] => {
    const first = answers[0];
    return first && isOver(first) && first.text !== ''
      ? [
          { role: 'user', content: prompt },
          { role: 'assistant', content: first.text },
        ]
      : [];
  });
  return system.trim() === '' ? said : [{ role: 'system', content: system }, ...said];
}

export function createConversation(): Conversation {
  const store = createStore<{ turns: readonly Turn[]; isBusy: boolean }>({ turns: [], isBusy: false });
  let running: AbortController | undefined;
  let count = 0;

  async function answer(
    by: Answerer,
    messages: readonly Message[],
    sampling: Sampling,
    signal: AbortSignal,
    show: (answer: Answer) => void,
  ): Promise<void> {
    let now: Answer = { engine: by.engine, model: by.model, state: 'writing', text: '', thought: '' };
    let shownAt = 0;
    try {
      for await (const { text = '', thought = '', finish, measured } of by.ask(messages, sampling, signal)) {
        now = {
          ...now,
          text: now.text + text,
          thought: now.thought + thought,
          ...(finish && { finish }),
          ...(measured && { measured }),
        };
        if (performance.now() - shownAt < showEveryMs) continue;
        show(now);
        shownAt = performance.now();
      }
      show({ ...now, state: signal.aborted ? 'stopped' : 'done' });
    } catch (error) {
      show(
        signal.aborted
          ? { ...now, state: 'stopped' }
          : { ...now, state: 'failed', fault: errorMessage(error) },
      );
    }
  }

  return {
    store,
    async ask(prompt, { system, sampling, answerers }) {
      if (running !== undefined) throw new Error('an answer is still being written');
      const controller = new AbortController();
      running = controller;
      const id = ++count;
      const messages: Message[] = [
        ...messagesOf(store.get().turns, system),
        { role: 'user', content: prompt },
      ];
      const waiting = answerers.map(
        ({ engine, model }): Answer => ({ engine, model, state: 'waiting', text: '', thought: '' }),
      );
      store.set({ turns: [...store.get().turns, { id, prompt, answers: waiting }], isBusy: true });
      const showOf = (at: number) => (next: Answer) =>
        store.set({
          ...store.get(),
          turns: store
            .get()
            .turns.map((turn) => (turn.id === id ? { ...turn, answers: turn.answers.with(at, next) } : turn)),
        });
      for (const [at, by] of answerers.entries()) {
        const show = showOf(at);
        // Sequential on purpose.
        if (!controller.signal.aborted) await answer(by, messages, sampling, controller.signal, show);
        else show({ engine: by.engine, model: by.model, state: 'stopped', text: '', thought: '' });
      }
      running = undefined;
      store.set({ ...store.get(), isBusy: false });
    },
    stop: () => running?.abort(),
    clear() {
      running?.abort();
      store.set({ turns: [], isBusy: running !== undefined });
    },
  };
}
