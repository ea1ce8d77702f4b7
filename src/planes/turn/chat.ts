import { type ChatInput, type PreparedChat, prepareChat } from '../../chat/index.ts';
import type {
  FinishReason,
  PromptProgress,
  Timings,
  TokenLogprob,
  Tokenizer,
  Usage,
} from '../../engine/index.ts';
import type { Work } from '../../watch/index.ts';
import { toHttpError } from '../resident.ts';
import {
  type Answering,
  type ChoiceEvent,
  type Measured,
  startChoices,
  type TextRequest,
} from './choices.ts';
import { type ParsedDelta, Progress } from './progress.ts';
import { sayConversation } from './said.ts';
import { watched } from './watched.ts';

/** How a conversation is to be answered; `maxTokens` is decided when the prompt's length is known. */
export interface ChatAsk
  extends Omit<TextRequest, 'prompt' | 'maxTokens' | 'grammar' | 'visible' | 'promptLogprobs'> {
  readonly input: ChatInput;
  /** Tokens that the answer may have. Throws where the context cannot hold them. */
  readonly maxTokens: (promptTokens: number) => number;
  /** The answers are made for their prompt's sake: nothing of them is told. */
  readonly promptOnly?: boolean;
}

export interface ChatEnd {
  readonly type: 'end';
  readonly finishReason: FinishReason | 'tool_calls';
  readonly stopText?: string;
  readonly usage: Usage;
  readonly timings: Timings;
  /** Part of the answer's tokens. */
  readonly reasoningTokens: number;
}

/** Progress of the prompt comes where the request asks for it. */
export type ChatEvent = { readonly choice: number } & Measured & (ParsedDelta | PromptProgress | ChatEnd);

export interface StartedChat {
  readonly prepared: PreparedChat;
  readonly events: AsyncGenerator<ChatEvent, void, undefined>;
}

/**
 * Renders and encodes a conversation and begins to answer it; refusals are `HttpError`s.
 * @param work of the request, where it is watched as a completion
 */
export async function startChat(
  answering: Answering,
  { input, maxTokens, promptOnly, ...ask }: ChatAsk,
  signal: AbortSignal,
  work?: Work<'completion'>,
): Promise<StartedChat> {
  if (work) sayConversation(work, input);
  const prepared = await prepareChat(answering.engine, input).catch((error: unknown) => {
    throw toHttpError(error);
  });
  const request: TextRequest = {
    ...ask,
    prompt: prepared.prompt,
    maxTokens: maxTokens(prepared.prompt.length),
    stop: [...ask.stop, ...prepared.stop],
    grammar: prepared.grammar,
    visible: prepared.visible,
  };
  const { tokenizer } = answering.engine;
  const parsed = parsedChoices(prepared, tokenizer, await startChoices(answering, [request], signal));
  const events = promptOnly ? endsAlone(parsed) : parsed;
  const { n = 1 } = ask;
  return { prepared, events: work ? watched(work, events, { all: n, each: n }) : events };
}

/** What the answers of a conversation mean, as they are made. */
export async function* parsedChoices(
  prepared: PreparedChat,
  tokenizer: Tokenizer,
  events: AsyncGenerator<ChoiceEvent, void, undefined>,
): AsyncGenerator<ChatEvent, void, undefined> {
  const answers = new Map<number, Progress>();
  const progressOf = (choice: number) => {
    const known = answers.get(choice) ?? new Progress(prepared, tokenizer);
    answers.set(choice, known);
    return known;
  };
  for await (const event of events) {
    const { choice, measured } = event;
    const from = { choice, ...(measured ? { measured } : {}) };
    const progress = progressOf(choice);
    if (event.type === 'prompt') {
      yield event;
      continue;
    }
    if (event.type === 'text') {
      for (const delta of progress.text(event)) yield { ...from, ...delta };
      continue;
    }
    for (const delta of progress.end()) yield { ...from, ...delta };
    answers.delete(choice);
    const { type, finishReason, stopText, usage, timings } = event;
    const called = finishReason === 'stop' && progress.called;
    // One of our own stop texts is no news to the caller.
    const own = stopText !== undefined && prepared.stop.includes(stopText);
    yield {
      ...from,
      type,
      finishReason: called ? 'tool_calls' : finishReason,
      ...(stopText === undefined || own ? {} : { stopText }),
      usage,
      timings,
      reasoningTokens: progress.reasoningTokens,
    };
  }
}

async function* endsAlone(events: AsyncIterable<ChatEvent>): AsyncGenerator<ChatEvent, void, undefined> {
  for await (const event of events) {
    if (event.type !== 'end') continue;
    const { stopText: _, ...end } = event;
    const usage = { ...end.usage, completion_tokens: 0 };
    yield { ...end, finishReason: 'length', usage, reasoningTokens: 0 };
  }
}

export interface ChatAnswer extends Omit<ChatEnd, 'type'> {
  readonly content: string;
  readonly reasoning: string;
  readonly toolCalls: readonly { readonly id: string; readonly name: string; readonly arguments: string }[];
  /** Of the tokens of `content`. */
  readonly logprobs: readonly TokenLogprob[];
}

/** Reads a conversation's answers to their end: one for each choice, in order. */
export async function collectChat(events: AsyncIterable<ChatEvent>): Promise<ChatAnswer[]> {
  const answers: Collected[] = [];
  for await (const event of events) {
    const answer = (answers[event.choice] ??= new Collected());
    answer.take(event);
  }
  return answers.map((answer) => answer.whole());
}

class Collected {
  readonly #content: string[] = [];
  readonly #reasoning: string[] = [];
  readonly #calls: { id: string; name: string; pieces: string[] }[] = [];
  readonly #logprobs: TokenLogprob[] = [];
  #end: ChatEnd | undefined;

  take(event: ChatEvent): void {
    if (event.type === 'content') {
      this.#content.push(event.text);
      this.#logprobs.push(...(event.logprobs ?? []));
    } else if (event.type === 'reasoning') {
      this.#reasoning.push(event.text);
    } else if (event.type === 'tool_call') {
      this.#calls[event.index] = { id: event.id, name: event.name, pieces: [] };
    } else if (event.type === 'tool_arguments') {
      this.#calls[event.index]?.pieces.push(event.text);
    } else if (event.type === 'end') {
      this.#end = event;
    }
  }

  whole(): ChatAnswer {
    if (!this.#end) throw new Error('the engine ended a generation without an end event');
    const { type: _, ...end } = this.#end;
    return {
      ...end,
      content: this.#content.join(''),
      reasoning: this.#reasoning.join(''),
      toolCalls: this.#calls.map(({ id, name, pieces }) => ({ id, name, arguments: pieces.join('') })),
      logprobs: this.#logprobs,
    };
  }
}
