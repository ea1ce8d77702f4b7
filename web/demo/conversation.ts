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

interface AnswerDelta {
  readonly text?: string;
  /** Reasoning text before the answer. */
  readonly reasoning?: string;
  readonly finishReason?: 'stop' | 'length';
  readonly measured?: Measured;
}

/** An engine with a loaded model. */
export interface ChatBackend {
  readonly engine: string;
  readonly model: string;
  readonly ask: (
    messages: readonly Message[],
    sampling: Sampling,
    signal: AbortSignal,
  ) => AsyncIterable<AnswerDelta>;
}

export interface Answer {
  readonly engine: string;
  readonly model: string;
  readonly state: 'waiting' | 'writing' | 'done' | 'stopped' | 'failed';
  readonly text: string;
  readonly reasoning: string;
  readonly finishReason?: 'stop' | 'length';
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
  readonly ask: (prompt: string, options: AskOptions) => Promise<void>;
  readonly stop: () => void;
  readonly clear: () => void;
}

interface AskOptions {
  readonly system: string;
  readonly sampling: Sampling;
  readonly backends: readonly ChatBackend[];
}

/** Minimum time between two updates of a growing answer; more updates would slow the model down. */
const updateIntervalMs = 30;

const isFinished = ({ state }: Answer) => state === 'done' || state === 'stopped';

/** Messages of the request. All engines get the same history, which has the answers of the first one. */
export function messagesOf(turns: readonly Turn[], system: string): readonly Message[] {
  const history = turns.flatMap(({ prompt, answers }): readonly Message[] => {
    const first = answers[0];
    return first && isFinished(first) && first.text !== ''
      ? [
          { role: 'user', content: prompt },
          { role: 'assistant', content: first.text },
        ]
      : [];
  });
  return system.trim() === '' ? history : [{ role: 'system', content: system }, ...history];
}

export function createConversation(): Conversation {
  const store = createStore<{ turns: readonly Turn[]; isBusy: boolean }>({ turns: [], isBusy: false });
  let currentAbort: AbortController | undefined;
  let count = 0;

  async function streamAnswer(
    backend: ChatBackend,
    messages: readonly Message[],
    sampling: Sampling,
    signal: AbortSignal,
    publish: (answer: Answer) => void,
  ): Promise<void> {
    let current: Answer = {
      engine: backend.engine,
      model: backend.model,
      state: 'writing',
      text: '',
      reasoning: '',
    };
    let publishedAt = 0;
    try {
      for await (const { text = '', reasoning = '', finishReason, measured } of backend.ask(
        messages,
        sampling,
        signal,
      )) {
        current = {
          ...current,
          text: current.text + text,
          reasoning: current.reasoning + reasoning,
          ...(finishReason && { finishReason }),
          ...(measured && { measured }),
        };
        if (performance.now() - publishedAt < updateIntervalMs) continue;
        publish(current);
        publishedAt = performance.now();
      }
      publish({ ...current, state: signal.aborted ? 'stopped' : 'done' });
    } catch (error) {
      publish(
        signal.aborted
          ? { ...current, state: 'stopped' }
          : { ...current, state: 'failed', fault: errorMessage(error) },
      );
    }
  }

  return {
    store,
    async ask(prompt, { system, sampling, backends }) {
      if (currentAbort !== undefined) throw new Error('an answer is still being written');
      const controller = new AbortController();
      currentAbort = controller;
      const id = ++count;
      const messages: Message[] = [
        ...messagesOf(store.get().turns, system),
        { role: 'user', content: prompt },
      ];
      const waiting = backends.map(
        ({ engine, model }): Answer => ({ engine, model, state: 'waiting', text: '', reasoning: '' }),
      );
      store.set({ turns: [...store.get().turns, { id, prompt, answers: waiting }], isBusy: true });
      const updateAnswer = (at: number) => (next: Answer) =>
        store.set({
          ...store.get(),
          turns: store
            .get()
            .turns.map((turn) => (turn.id === id ? { ...turn, answers: turn.answers.with(at, next) } : turn)),
        });
      for (const [at, backend] of backends.entries()) {
        const show = updateAnswer(at);
        // Sequential on purpose.
        if (!controller.signal.aborted)
          await streamAnswer(backend, messages, sampling, controller.signal, show);
        else
          show({ engine: backend.engine, model: backend.model, state: 'stopped', text: '', reasoning: '' });
      }
      currentAbort = undefined;
      store.set({ ...store.get(), isBusy: false });
    },
    stop: () => currentAbort?.abort(),
    clear() {
      currentAbort?.abort();
      store.set({ turns: [], isBusy: currentAbort !== undefined });
    },
  };
}
