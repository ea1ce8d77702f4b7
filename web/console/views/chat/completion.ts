import { fetchRaw } from '../../../api/client.ts';
import { Fault } from '../../../api/fault.ts';
import { readEvents } from '../../../api/lines.ts';
import type { components } from '../../../api/schema.d.ts';
import { type AssistantTurn, speedOf, type Token, type ToolCall } from './answer.ts';
import type { Message } from './messages.ts';

/** A chunk of the stream; a stream may end with an error envelope. */
type Chunk = components['schemas']['ChatCompletionChunk'] & {
  readonly error?: { readonly message: string; readonly code?: string | null; readonly type?: string };
};

export interface CompletionRequest {
  /** The answer before its first token. */
  readonly answer: AssistantTurn;
  readonly messages: readonly Message[];
  readonly signal: AbortSignal;
}

/**
 * Streams a completion. Yields the answer so far after each chunk; the last one is complete. Its `tokens` and `chunkTimes`
 * are the same arrays each time, to which the next chunk adds. @throws Fault
 */
export async function* streamCompletion({
  answer: empty,
  messages,
  signal,
}: CompletionRequest): AsyncGenerator<AssistantTurn> {
  const sentAt = performance.now();
  const elapsedMs = () => performance.now() - sentAt;
  const body = { messages, ...empty.settings, stream: true, stream_options: { include_usage: true } };
  const chunkTimes: number[] = [];
  const tokens: Token[] = [];
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  let answer = empty;
  const response = await fetchRaw('/v1/chat/completions', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
    signal,
  });
  const requestId = response.headers.get('x-request-id');
  const headers = elapsedMs();
  answer = { ...answer, timing: { headers, chunkTimes }, ...(requestId === null ? {} : { requestId }) };
  for await (const chunk of readEvents<Chunk>(response)) {
    if (chunk.error) throw chunkFault(chunk.error, requestId);
    const at = elapsedMs();
    const choice = chunk.choices[0];
    const { content, reasoning_content: reasoning } = choice?.delta ?? {};
    if (content || reasoning || choice?.delta.tool_calls) chunkTimes.push(at);
    if (!reasoning)
      for (const one of choice?.logprobs?.content ?? []) {
        // The other form answers post_sampling_probs, which the console does not send.
        if (!('logprob' in one)) continue;
        const { token, logprob, bytes, top_logprobs: top } = one;
        tokens.push({
          token,
          logprob,
          bytes,
          top,
          arrivalMs: at,
          text: decoder.decode(new Uint8Array(bytes), { stream: true }),
        });
      }
    answer = {
      ...answer,
      text: answer.text + (content ?? ''),
      reasoning: answer.reasoning + (reasoning ?? ''),
      toolCalls: withDeltas(answer.toolCalls, choice?.delta.tool_calls),
      tokens,
      timing: { headers, chunkTimes },
      state: 'writing',
      model: chunk.model,
      ...(choice?.finish_reason ? { finishReason: choice.finish_reason } : {}),
      ...(chunk.usage ? { usage: chunk.usage } : {}),
    };
    yield answer;
  }
  if (answer.finishReason === undefined)
    throw new Fault('The host ended the stream before the answer was complete.', {
      requestId: requestId ?? undefined,
    });
  const speed = speedOf(answer);
  yield {
    ...answer,
    ...(speed ? { speed } : {}),
    state: 'done',
    timing: { ...answer.timing, end: elapsedMs() },
  };
}

type ToolCallDelta = NonNullable<Chunk['choices'][number]['delta']['tool_calls']>[number];

/** Tool calls with what a chunk adds to them. */
function withDeltas(
  calls: readonly ToolCall[],
  deltas: readonly ToolCallDelta[] | undefined,
): readonly ToolCall[] {
  if (!deltas?.length) return calls;
  const after = [...calls];
  for (const { index, id, function: part } of deltas) {
    const { id: knownId = '', name = '', arguments: text = '' } = after[index] ?? {};
    after[index] = {
      id: id ?? knownId,
      name: part?.name ?? name,
      arguments: text + (part?.arguments ?? ''),
    };
  }
  return after;
}

const chunkFault = ({ message, code, type }: NonNullable<Chunk['error']>, requestId: string | null): Fault =>
  new Fault(message, {
    code: code ?? type,
    requestId: requestId ?? undefined,
  });
