import type { Chat } from '../engine/types.ts';
import type { Answerer } from './conversation.ts';
import { requestedSampling } from './settings.ts';

/** Sends prompts to lathe through the public API of the engine, with OpenAI's request. */
export const latheAnswerer = (chat: Chat): Answerer => ({
  engine: 'lathe',
  model: chat.model.id,
  async *ask(messages, sampling, signal) {
    const chunks = await chat.chat.completions.create(
      { messages, ...requestedSampling(sampling), stream: true },
      { signal },
    );
    for await (const { choices, timings } of chunks) {
      const [{ delta, finish_reason: finish }] = choices;
      yield {
        ...(delta.content !== undefined && { text: delta.content }),
        ...(delta.reasoning_content !== undefined && { thought: delta.reasoning_content }),
        ...(finish !== null && { finish }),
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
