import { type ChatInput, type PreparedChat, prepareChat } from '../../chat/index.ts';
import type { Engine, Tokenizer } from '../../engine/index.ts';
import type { Work } from '../../watch/index.ts';
import type { AnswerEvent, FinishReason } from '../../wires/core/answer.ts';
import type { AnswerBatches } from '../../wires/core/backend.ts';
import { toHttpError } from '../resident.ts';
import { type Answering, type ChoiceEvent, startChoices, type TextRequest } from './choices.ts';
import { writeLogprobs } from './logprobs.ts';
import { type ParsedDelta, Progress } from './progress.ts';
import { sayConversation } from './said.ts';
import { toSharedTimings, toTimings } from './timings.ts';
import { toUsage } from './usage.ts';
import { Watcher } from './watched.ts';

/** Options for answering a conversation; `maxTokens` is computed once the prompt's length is known. */
export interface ChatAsk
  extends Omit<TextRequest, 'prompt' | 'maxTokens' | 'grammar' | 'visible' | 'promptLogprobs'> {
  readonly input: ChatInput;
  /** Returns the token limit of the answer. @throws where prompt and answer exceed the context */
  readonly maxTokens: (promptTokens: number) => number;
  /** Only the prompt is of interest: no answer events are produced. */
  readonly promptOnly?: boolean;
}

export interface StartedChat {
  readonly prepared: PreparedChat;
  readonly events: AnswerBatches;
}

/**
 * Renders and encodes a conversation and starts its answers; refusals are `HttpError`s.
 * @param span of the request, where it is traced as a completion
 */
export async function startChat(
  answering: Answering,
  { input, maxTokens, promptOnly = false, ...ask }: ChatAsk,
  signal: AbortSignal,
  work?: Work<'completion'>,
): Promise<StartedChat> {
  if (work) sayConversation(work, input);
  const prepared = await prepare(answering.engine, input);
  const request: TextRequest = {
    ...ask,
    prompt: prepared.prompt,
    maxTokens: maxTokens(prepared.prompt.length),
    stop: [...ask.stop, ...prepared.stop],
    grammar: prepared.grammar,
    visible: prepared.visible,
  };
  const { tokenizer } = answering.engine;
  const choices = await startChoices(answering, [request], signal);
  const events = parsedAnswers(choices, { prepared, tokenizer, answers: ask.n ?? 1, promptOnly, work });
  return { prepared, events };
}

/** Renders and encodes a conversation. @throws HttpError */
export const prepare = (engine: Engine, input: ChatInput): Promise<PreparedChat> =>
  prepareChat(engine, input).catch((error: unknown) => {
    throw toHttpError(error);
  });

/** Options for parsing the answers to a conversation. */
export interface Reading {
  readonly prepared: PreparedChat;
  readonly tokenizer: Tokenizer;
  /** Default 1. */
  readonly answers?: number;
  readonly promptOnly?: boolean;
  readonly work?: Work<'completion'> | undefined;
}

interface ChoiceEnd extends Omit<Extract<ChoiceEvent, { type: 'end' }>, 'finishReason'> {
  readonly finishReason: FinishReason;
  readonly reasoningTokens: number;
}

/** Parses the generated text of the answers into events, as it arrives. */
export async function* parsedAnswers(
  choices: AsyncGenerator<ChoiceEvent, void, undefined>,
  { prepared, tokenizer, answers = 1, promptOnly = false, work }: Reading,
): AnswerBatches {
  const parsers = new Map<number, Progress>();
  const ends: ChoiceEnd[] = [];
  const watcher = work && new Watcher(work, { all: answers, each: answers });
  try {
    for await (const event of choices) {
      const { choice, measured } = event;
      const from = { choice, ...(measured ? { timings: measured.timings } : {}) };
      if (event.type === 'prompt') {
        const { processed, cached, ms } = event;
        const promptTokens = prepared.prompt.length;
        if (!promptOnly) yield [{ ...from, type: 'progress', promptTokens, processed, cached, ms }];
        continue;
      }
      const parser = parsers.get(choice) ?? new Progress(prepared, tokenizer);
      parsers.set(choice, parser);
      const deltas = event.type === 'text' ? parser.text(event) : parser.end();
      const told = promptOnly ? [] : deltas.map((delta) => written(delta, from, tokenizer));
      for (const one of told) watcher?.take(one);
      const batch: AnswerEvent[] = told;
      if (event.type === 'end') {
        parsers.delete(choice);
        const end = endOf(event, { prepared, parser, promptOnly });
        ends.push(end);
        watcher?.take(end);
        // Usage precedes the last finish event, because a wire may have to write both in one object.
        if (ends.length === answers) batch.push(usageOf(ends, answers));
        batch.push(finishOf(end));
      }
      if (batch.length > 0) yield batch;
    }
  } finally {
    watcher?.end();
  }
}

type Delta = Extract<AnswerEvent, { type: 'text' | 'reasoning' | 'tool_call' | 'tool_arguments' }>;

function written(
  delta: ParsedDelta,
  from: Pick<AnswerEvent, 'choice' | 'timings'>,
  tokenizer: Tokenizer,
): Delta {
  if (delta.type === 'tool_call' || delta.type === 'tool_arguments') return { ...from, ...delta };
  const { type, text, logprobs } = delta;
  const told = logprobs ? { logprobs: writeLogprobs(tokenizer, logprobs) } : {};
  return { ...from, type: type === 'content' ? 'text' : type, text, ...told };
}

function endOf(
  event: Extract<ChoiceEvent, { type: 'end' }>,
  {
    prepared,
    parser,
    promptOnly,
  }: { readonly prepared: PreparedChat; readonly parser: Progress; readonly promptOnly: boolean },
): ChoiceEnd {
  const { stopText, ...end } = event;
  if (promptOnly)
    return {
      ...end,
      finishReason: 'length',
      usage: { ...end.usage, completion_tokens: 0 },
      reasoningTokens: 0,
    };
  const isCall = end.finishReason === 'stop' && parser.called;
  // A stop text added by the template is not reported to the caller.
  const isOwn = stopText !== undefined && prepared.stop.includes(stopText);
  return {
    ...end,
    finishReason: isCall ? 'tool_calls' : end.finishReason,
    ...(stopText === undefined || isOwn ? {} : { stopText }),
    reasoningTokens: parser.reasoningTokens,
  };
}

const finishOf = (end: ChoiceEnd): AnswerEvent => ({
  type: 'finish',
  choice: end.choice,
  reason: end.finishReason,
  ...(end.stopText === undefined ? {} : { stopText: end.stopText }),
  timings: toTimings(end),
});

const usageOf = (ends: readonly ChoiceEnd[], answers: number): AnswerEvent => ({
  type: 'usage',
  usage: toUsage(ends, answers),
  timings: toSharedTimings(ends, answers),
});
