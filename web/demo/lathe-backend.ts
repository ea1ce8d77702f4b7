import type { Chat } from '../engine/types.ts';
import type { ChatBackend } from './conversation.ts';
import { samplingMembers } from './settings.ts';

/** Sends prompts to lathe through the public API of the engine, with OpenAI's request. */
export const latheBackend = (chat: Chat): ChatBackend => ({
  engine: 'lathe',
  model: chat.model.id,
  async *ask(messages, sampling, signal) {
    const chunks = await chat.chat.completions.create(
      { messages, ...samplingMembers(sampling), stream: true },
      { signal },
    );
    for await (const { choices, timings } of chunks) {
      const [{ delta, finish_reason: finishReason }] = choices;
      yield {
        ...(delta.content !== undefined && { text: delta.content }),
        ...(delta.reasoning_content !== undefined && { reasoning: delta.reasoning_content }),
        ...(finishReason !== null && { finishReason }),
        ...(timings && {
          measured: {
            promptTokens: timings.prompt_tokens,
            cachedTokens: timings.cached_tokens,
            completionTokens: timings.completion_tokens,
            prefillMs: timings.prefill_ms,
            decodeMs: timings.decode_ms,
            tokensPerSecond: timings.decode_tokens_per_second,
          },
        }),
      };
    }
  },
});
