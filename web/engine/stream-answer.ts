/** Generates one answer as chat completion chunks. */
import { type ChatDelta, prepareChat } from '../../src/chat/index.ts';
import type { Engine, Sampling, Timings, Usage } from '../../src/engine/index.ts';
import { invalidRequest } from './chat-error.ts';
import type { ChatChunk, ChatRequest, ChatTimings } from './types.ts';

type Delta = ChatChunk['choices'][0]['delta'];
type Finish = NonNullable<ChatChunk['choices'][0]['finish_reason']>;

/**
 * Yields the chunks of an answer: the first when the engine accepts the request, the last with usage and timings. When
 * `signal` aborts, the answer ends with the text so far.
 * @throws ChatError `invalid_request`; EngineError
 */
export async function* streamAnswer(
  engine: Engine,
  request: ChatRequest,
  signal: AbortSignal,
): AsyncGenerator<ChatChunk, void, undefined> {
  const { model } = engine;
  const prepared = await prepareChat(engine, { messages: request.messages });
  const maxTokens = resolveMaxTokens(prepared.prompt.length, model.contextLength, request.max_tokens);
  const head = {
    id: `chatcmpl-${crypto.randomUUID().replaceAll('-', '')}`,
    object: 'chat.completion.chunk',
    created: Math.floor(Date.now() / 1000),
    model: model.id,
  } as const;
  const chunk = (delta: Delta, finish_reason: Finish | null = null): ChatChunk => ({
    ...head,
    choices: [{ index: 0, delta, finish_reason }],
  });
  const parser = prepared.parser();
  const timer = new AnswerTimer(prepared.prompt.length);
  if (!signal.aborted) {
    const events = engine.generate({
      prompt: prepared.prompt,
      maxTokens,
      sampling: samplingOf(request),
      stop: [...stopSequences(request.stop), ...prepared.stop],
      visible: prepared.visible,
      signal,
    });
    yield chunk({ role: 'assistant', content: '' });
    try {
      for await (const event of events) {
        if (event.type === 'text') {
          timer.count(event.ids.length);
          for (const delta of deltasOf(parser.push(event.text))) yield chunk(delta);
          continue;
        }
        if (event.type === 'prompt') continue;
        for (const delta of deltasOf(parser.end())) yield chunk(delta);
        yield { ...chunk({}, event.finishReason), ...usageAndTimings(event.usage, event.timings) };
        return;
      }
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  } else {
    yield chunk({ role: 'assistant', content: '' });
  }
  const { usage, timings } = timer.snapshot();
  for (const delta of deltasOf(parser.end())) yield chunk(delta);
  yield { ...chunk({}, 'stop'), ...usageAndTimings(usage, timings) };
}

/** Measures an answer that was stopped before the engine reported its usage. */
class AnswerTimer {
  readonly #startedAt = performance.now();
  readonly #promptTokens: number;
  #firstTokenAt: number | undefined;
  #tokens = 0;

  constructor(promptTokens: number) {
    this.#promptTokens = promptTokens;
  }

  count(tokens: number): void {
    this.#tokens += tokens;
    this.#firstTokenAt ??= performance.now();
  }

  snapshot(): { usage: Usage; timings: Timings } {
    const now = performance.now();
    const firstTokenAt = this.#firstTokenAt ?? now;
    return {
      usage: { prompt_tokens: this.#promptTokens, completion_tokens: this.#tokens, cached_tokens: 0 },
      timings: { queued_ms: 0, prefill_ms: firstTokenAt - this.#startedAt, decode_ms: now - firstTokenAt },
    };
  }
}

function* deltasOf(deltas: readonly ChatDelta[]): Generator<Delta> {
  for (const delta of deltas) {
    if (delta.type === 'content') yield { content: delta.text };
    // Requests have no tools, so the parser emits no tool calls.
    else if (delta.type === 'reasoning') yield { reasoning_content: delta.text };
  }
}

function usageAndTimings(
  usage: Usage,
  { prefill_ms, decode_ms }: Timings,
): Required<Pick<ChatChunk, 'usage' | 'timings'>> {
  const { prompt_tokens, completion_tokens, cached_tokens } = usage;
  const timings: ChatTimings = {
    prompt_tokens,
    cached_tokens,
    completion_tokens,
    prefill_ms,
    decode_ms,
    // Prefill produces the first token.
    decode_tokens_per_second:
      completion_tokens > 1 && decode_ms > 0 ? ((completion_tokens - 1) * 1000) / decode_ms : undefined,
  };
  return {
    usage: { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens },
    timings,
  };
}

function resolveMaxTokens(prompt: number, context: number, wanted: number | null | undefined): number {
  const remaining = context - prompt;
  const contextText = `the context holds ${context} tokens and the messages take ${prompt}`;
  if (remaining < 1)
    throw invalidRequest([{ path: 'messages', message: `${contextText}; send fewer or shorter ones` }]);
  if ((wanted ?? 0) > remaining)
    throw invalidRequest([{ path: 'max_tokens', message: `${contextText}: at most ${remaining} are left` }]);
  return wanted ?? remaining;
}

/** Sampling parameters with OpenAI's defaults. */
const samplingOf = (request: ChatRequest): Sampling => ({
  temperature: request.temperature ?? 1,
  topK: Math.max(0, request.top_k ?? 0),
  topP: request.top_p ?? 1,
  minP: request.min_p ?? 0,
  repetitionPenalty: request.repetition_penalty ?? 1,
  presencePenalty: request.presence_penalty ?? 0,
  frequencyPenalty: request.frequency_penalty ?? 0,
  logitBias: new Map(),
  seed: Number(
    BigInt.asUintN(32, BigInt(request.seed ?? crypto.getRandomValues(new Uint32Array(1))[0] ?? 0)),
  ),
});

const stopSequences = (stop: ChatRequest['stop']): readonly string[] =>
  typeof stop === 'string' ? [stop] : (stop ?? []);
