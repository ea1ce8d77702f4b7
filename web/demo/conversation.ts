import { errorMessage } from '../../src/util/error-message.ts';
import { createChats } from '../chat/chats.ts';
import type { History } from '../chat/history.ts';
import { type Answer, type Message as UserTurn, pathBefore, type TurnPosition } from '../chat/tree.ts';
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

/** Answer of one engine. */
export interface EngineAnswer {
  readonly engine: string;
  readonly model: string;
  readonly state: 'waiting' | 'writing' | 'done' | 'stopped' | 'failed';
  readonly text: string;
  readonly reasoning: string;
  readonly finishReason?: 'stop' | 'length';
  readonly measured?: Measured;
  readonly fault?: string;
}

/** Answers of all engines to a message. Its own text is that of the first engine, which the next request sends. */
export interface AnswerTurn extends Answer {
  readonly answers: readonly EngineAnswer[];
}

export type Turn = UserTurn | AnswerTurn;

export interface AskOptions {
  readonly system: string;
  readonly sampling: Sampling;
  readonly backends: readonly ChatBackend[];
}

/** Minimum time between two updates of a growing answer; more updates would slow the model down. */
const updateIntervalMs = 30;

const isFinished = ({ state }: Answer) => state === 'done' || state === 'stopped';

/**
 * Messages of the request, from the turns before the answer. All engines get the same history, which has the answers of
 * the first one. A message without an answer is left out, but for the last one.
 */
export function messagesOf(turns: readonly Turn[], system: string): readonly Message[] {
  const messages = turns.flatMap((turn, index): readonly Message[] => {
    const next = turns[index + 1];
    if (turn.role === 'user') {
      const isAnswered = next === undefined || isSent(next);
      return isAnswered ? [{ role: 'user', content: turn.text }] : [];
    }
    return isSent(turn) ? [{ role: 'assistant', content: turn.text }] : [];
  });
  return system.trim() === '' ? messages : [{ role: 'system', content: system }, ...messages];
}

const isSent = (turn: Turn): boolean => turn.role === 'assistant' && isFinished(turn) && turn.text !== '';

/** Answers of one engine after the other: in parallel they would share the GPU and distort the timings. */
async function* generate(
  empty: AnswerTurn,
  messages: readonly Message[],
  { sampling, backends }: AskOptions,
  signal: AbortSignal,
): AsyncGenerator<AnswerTurn> {
  let turn = empty;
  for (const [at, backend] of backends.entries()) {
    for await (const answer of answersOf(backend, messages, sampling, signal)) {
      turn = {
        ...turn,
        ...(at === 0 ? { text: answer.text } : {}),
        state: 'writing',
        answers: turn.answers.with(at, answer),
      };
      yield turn;
    }
  }
  const first = turn.answers[0];
  const state = signal.aborted ? 'stopped' : first?.state === 'failed' ? 'failed' : 'done';
  yield { ...turn, state };
}

/** The answer of an engine so far; the last one is complete. */
async function* answersOf(
  backend: ChatBackend,
  messages: readonly Message[],
  sampling: Sampling,
  signal: AbortSignal,
): AsyncGenerator<EngineAnswer> {
  const { engine, model } = backend;
  let current: EngineAnswer = { engine, model, state: 'writing', text: '', reasoning: '' };
  if (signal.aborted) return yield { ...current, state: 'stopped' };
  let yieldedAt = 0;
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
      if (performance.now() - yieldedAt < updateIntervalMs) continue;
      yield current;
      yieldedAt = performance.now();
    }
    yield { ...current, state: signal.aborted ? 'stopped' : 'done' };
  } catch (error) {
    yield signal.aborted
      ? { ...current, state: 'stopped' }
      : { ...current, state: 'failed', fault: errorMessage(error) };
  }
}

const emptyAnswer = (position: TurnPosition, { backends }: AskOptions): AnswerTurn => ({
  ...position,
  role: 'assistant',
  text: '',
  state: 'waiting',
  answers: backends.map(({ engine, model }) => ({
    engine,
    model,
    state: 'waiting',
    text: '',
    reasoning: '',
  })),
});

/** The conversations of the demo. */
export const createConversations = (history: History<Turn>) =>
  createChats<UserTurn, AnswerTurn, AskOptions>({
    history,
    emptyAnswer,
    generate: ({ conversation, answer, request, signal }) =>
      generate(answer, messagesOf(pathBefore(conversation, answer), request.system), request, signal),
    failedAnswer: (answer, error) => ({
      ...answer,
      state: 'failed',
      answers: answer.answers.map((one) => ({ ...one, state: 'failed', fault: errorMessage(error) })),
    }),
  });

export type Conversations = ReturnType<typeof createConversations>;

/** A stored turn: answers in progress ended with their page. */
export const revivedTurn = (turn: Turn): Turn =>
  turn.role === 'user'
    ? turn
    : {
        ...turn,
        answers: turn.answers.map((answer) =>
          answer.state === 'waiting' || answer.state === 'writing' ? { ...answer, state: 'stopped' } : answer,
        ),
      };
