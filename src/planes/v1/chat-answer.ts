import type { TokenLogprob } from '../../engine/index.ts';
import type { ChatAnswer, ChatEvent } from '../turn/chat.ts';
import type { answerHead } from '../turn/identity.ts';
import type { ChatChunk, ChatCompletion } from './chat-answer-schema.ts';
import { toSharedTimings } from '../turn/timings.ts';
import type { ChatLogprobs } from './logprobs.ts';
import { toUsage } from './usage.ts';

/** How log probabilities are written. */
export type ToLogprobs = (entries: readonly TokenLogprob[]) => ChatLogprobs;

/** @param toLogprobs undefined where the request asks for none */
export function toChatCompletion(
  head: ReturnType<typeof answerHead>,
  answers: readonly ChatAnswer[],
  toLogprobs: ToLogprobs | undefined,
): ChatCompletion {
  const ends = answers.map((answer, choice) => ({ ...answer, choice }));
  return {
    ...head,
    object: 'chat.completion',
    choices: answers.map((answer, index) => ({
      index,
      message: toMessage(answer),
      logprobs: toLogprobs?.(answer.logprobs) ?? null,
      finish_reason: answer.finishReason,
    })),
    usage: toUsage(ends, answers.length),
    timings: toSharedTimings(ends, answers.length),
  };
}

function toMessage({
  content,
  reasoning,
  toolCalls,
}: ChatAnswer): ChatCompletion['choices'][number]['message'] {
  const calls = toolCalls.map(({ id, name, arguments: text }) => ({
    id,
    type: 'function' as const,
    function: { name, arguments: text },
  }));
  return {
    role: 'assistant',
    content: content === '' && calls.length > 0 ? null : content,
    refusal: null,
    ...(reasoning === '' ? {} : { reasoning_content: reasoning, reasoning }),
    ...(calls.length > 0 ? { tool_calls: calls } : {}),
  };
}

type ChunkChoice = ChatChunk['choices'][number];
type Delta = ChunkChoice['delta'];

/** The choices of the chunks that an event becomes; an answer's first one carries its role, which clients need. */
export function toChunkChoices(
  toLogprobs: ToLogprobs | undefined,
): (event: ChatEvent) => Iterable<ChunkChoice> {
  const begun = new Set<number>();
  return function* (event) {
    const choice = (delta: Delta, more: Partial<ChunkChoice> = {}): ChunkChoice => ({
      index: event.choice,
      delta,
      logprobs: null,
      finish_reason: null,
      ...more,
    });
    if (event.type === 'prompt') {
      yield choice({ role: 'assistant', content: null });
      return;
    }
    const content = event.type === 'tool_call' ? null : '';
    if (!begun.has(event.choice)) yield choice({ role: 'assistant', content, refusal: null });
    begun.add(event.choice);
    if (event.type === 'end') {
      yield choice({}, { finish_reason: event.finishReason });
      return;
    }
    const told = event.type === 'content' && toLogprobs !== undefined && event.logprobs !== undefined;
    yield choice(toDelta(event), told ? { logprobs: toLogprobs(event.logprobs) } : {});
  };
}

function toDelta(event: Exclude<ChatEvent, { type: 'end' | 'prompt' }>): Delta {
  switch (event.type) {
    case 'content':
      return { content: event.text };
    case 'reasoning':
      return { reasoning_content: event.text, reasoning: event.text };
    case 'tool_call': {
      const { index, id, name } = event;
      return { tool_calls: [{ index, id, type: 'function', function: { name, arguments: '' } }] };
    }
    case 'tool_arguments':
      return { tool_calls: [{ index: event.index, function: { arguments: event.text } }] };
  }
}
