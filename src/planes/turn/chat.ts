import { type ChatInput, type PreparedChat, prepareChat } from '../../chat/index.ts';
import type { Engine, Tokenizer } from '../../engine/index.ts';
import type { TraceSpan } from '../../tracing/index.ts';
import type { AnswerEvent, FinishReason } from '../../wires/core/answer.ts';
import type { AnswerBatches } from '../../wires/core/backend.ts';
import { toHttpError } from '../resident.ts';
import { type GenerationResources, type ChoiceEvent, startChoices, type TextRequest } from './choices.ts';
import { writeLogprobs } from './logprobs.ts';
import { type ParsedDelta, AnswerParser } from './answer-parser.ts';
import { recordConversation } from './transcript.ts';
import { toSharedTimings, toTimings } from './timings.ts';
import { toUsage } from './usage.ts';
import { AnswerTracer } from './answer-tracer.ts';

/** Options for answering a conversation; `maxTokens` is computed once the prompt's length is known. */
export interface ChatAnswerOptions
  extends Omit<TextRequest, 'prompt' | 'maxTokens' | 'grammar' | 'visible' | 'promptLogprobs'> {
  readonly input: ChatInput;
  /** Returns the token limit of the answer. @throws where prompt and answer exceed the context */
  readonly maxTokens: (promptTokens: number) => number;
  /** Only the prompt is of interest: no answer events are produced. */
  readonly isPromptOnly?: boolean;
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
  answering: GenerationResources,
  { input, maxTokens, isPromptOnly = false, ...options }: ChatAnswerOptions,
  signal: AbortSignal,
  span?: TraceSpan<'completion'>,
): Promise<StartedChat> {
  if (span) recordConversation(span, input);
  const prepared = await preparePrompt(answering.engine, input);
  const request: TextRequest = {
    ...options,
    prompt: prepared.prompt,
    maxTokens: maxTokens(prepared.prompt.length),
    stop: [...options.stop, ...prepared.stop],
    grammar: prepared.grammar,
    visible: prepared.visible,
  };
  const { tokenizer } = answering.engine;
  const choices = await startChoices(answering, [request], signal);
  const events = parseAnswers(choices, { prepared, tokenizer, answers: options.n ?? 1, isPromptOnly, span });
  return { prepared, events };
}

/** Renders and encodes a conversation. @throws HttpError */
export const preparePrompt = (engine: Engine, input: ChatInput): Promise<PreparedChat> =>
  prepareChat(engine, input).catch((error: unknown) => {
    throw toHttpError(error);
  });

/** Options for parsing the answers to a conversation. */
export interface ParseOptions {
  readonly prepared: PreparedChat;
  readonly tokenizer: Tokenizer;
  /** Default 1. */
  readonly answers?: number;
  readonly isPromptOnly?: boolean;
  readonly span?: TraceSpan<'completion'> | undefined;
}

interface ChoiceEnd extends Omit<Extract<ChoiceEvent, { type: 'end' }>, 'finishReason'> {
  readonly finishReason: FinishReason;
  readonly reasoningTokens: number;
}

/** Parses the generated text of the answers into events, as it arrives. */
export async function* parseAnswers(
  choices: AsyncGenerator<ChoiceEvent, void, undefined>,
  { prepared, tokenizer, answers = 1, isPromptOnly = false, span }: ParseOptions,
): AnswerBatches {
  const parsers = new Map<number, AnswerParser>();
  const ends: ChoiceEnd[] = [];
  const tracer = span && new AnswerTracer(span, { total: answers, answersPerPrompt: answers });
  try {
    for await (const event of choices) {
      const { choice, measured } = event;
      const origin = { choice, ...(measured ? { timings: measured.timings } : {}) };
      if (event.type === 'prompt') {
        const { processed, cached, ms } = event;
        const promptTokens = prepared.prompt.length;
        if (!isPromptOnly) yield [{ ...origin, type: 'progress', promptTokens, processed, cached, ms }];
        continue;
      }
      const parser = parsers.get(choice) ?? new AnswerParser(prepared, tokenizer);
      parsers.set(choice, parser);
      const deltas = event.type === 'text' ? parser.push(event) : parser.end();
      const events = isPromptOnly ? [] : deltas.map((delta) => toWireDelta(delta, origin, tokenizer));
      for (const delta of events) tracer?.record(delta);
      const batch: AnswerEvent[] = events;
      if (event.type === 'end') {
        parsers.delete(choice);
        const end = toChoiceEnd(event, { prepared, parser, isPromptOnly });
        ends.push(end);
        tracer?.record(end);
        // Usage precedes the last finish event, because a wire may have to write both in one object.
        if (ends.length === answers) batch.push(toUsageEvent(ends, answers));
        batch.push(toFinishEvent(end));
      }
      if (batch.length > 0) yield batch;
    }
  } finally {
    tracer?.end();
  }
}

type Delta = Extract<AnswerEvent, { type: 'text' | 'reasoning' | 'tool_call' | 'tool_arguments' }>;

function toWireDelta(
  delta: ParsedDelta,
  origin: Pick<AnswerEvent, 'choice' | 'timings'>,
  tokenizer: Tokenizer,
): Delta {
  if (delta.type === 'tool_call' || delta.type === 'tool_arguments') return { ...origin, ...delta };
  const { type, text, logprobs } = delta;
  const logprobMembers = logprobs ? { logprobs: writeLogprobs(tokenizer, logprobs) } : {};
  return { ...origin, type: type === 'content' ? 'text' : type, text, ...logprobMembers };
}

function toChoiceEnd(
  event: Extract<ChoiceEvent, { type: 'end' }>,
  {
    prepared,
    parser,
    isPromptOnly,
  }: { readonly prepared: PreparedChat; readonly parser: AnswerParser; readonly isPromptOnly: boolean },
): ChoiceEnd {
  const { stopText, ...end } = event;
  if (isPromptOnly)
    return {
      ...end,
      finishReason: 'length',
      usage: { ...end.usage, completion_tokens: 0 },
      reasoningTokens: 0,
    };
  const isCall = end.finishReason === 'stop' && parser.hasCompleteCalls;
  // A stop text added by the template is not reported to the caller.
  const isTemplateStop = stopText !== undefined && prepared.stop.includes(stopText);
  return {
    ...end,
    finishReason: isCall ? 'tool_calls' : end.finishReason,
    ...(stopText === undefined || isTemplateStop ? {} : { stopText }),
    reasoningTokens: parser.reasoningTokens,
  };
}

const toFinishEvent = (end: ChoiceEnd): AnswerEvent => ({
  type: 'finish',
  choice: end.choice,
  reason: end.finishReason,
  ...(end.stopText === undefined ? {} : { stopText: end.stopText }),
  timings: toTimings(end),
});

const toUsageEvent = (ends: readonly ChoiceEnd[], answers: number): AnswerEvent => ({
  type: 'usage',
  usage: toUsage(ends, answers),
  timings: toSharedTimings(ends, answers),
});
