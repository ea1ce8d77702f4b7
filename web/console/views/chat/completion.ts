import { raw } from '../../api/client.ts';
import { Fault } from '../../api/fault.ts';
import { events } from '../../api/lines.ts';
import type { components } from '../../api/schema.d.ts';
import type { Answer, Token } from './answer.ts';
import type { Message } from './messages.ts';

/** A chunk of the stream; a stream may end with an error envelope. */
type Chunk = components['schemas']['ChatCompletionChunk'] & {
  readonly error?: { readonly message: string; readonly code?: string | null; readonly type?: string };
};

export interface Asked {
  readonly id: number;
  readonly messages: readonly Message[];
  readonly sampling: Readonly<Record<string, unknown>>;
  readonly signal: AbortSignal;
}

/** Streams a completion. Yields the answer so far after each chunk; the last one is complete. @throws Fault */
export async function* complete({ id, messages, sampling, signal }: Asked): AsyncGenerator<Answer> {
  const sent = performance.now();
  const now = () => performance.now() - sent;
  const body = { messages, ...sampling, stream: true, stream_options: { include_usage: true } };
  const pieces: number[] = [];
  const tokens: Token[] = [];
  const characters = new TextDecoder('utf-8', { ignoreBOM: true });
  let answer: Answer = {
    id,
    role: 'assistant',
    text: '',
    thought: '',
    tokens: [],
    timing: { pieces: [] },
    state: 'waiting',
  };
  yield answer;
  const response = await raw('/v1/chat/completions', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
    signal,
  });
  const requestId = response.headers.get('x-request-id');
  const headers = now();
  answer = { ...answer, timing: { headers, pieces }, ...(requestId === null ? {} : { requestId }) };
  for await (const chunk of events<Chunk>(response)) {
    if (chunk.error) throw brokenOff(chunk.error, requestId);
    const at = now();
    const choice = chunk.choices[0];
    const { content, reasoning_content: thought } = choice?.delta ?? {};
    if (content || thought) pieces.push(at);
    if (!thought)
      for (const one of choice?.logprobs?.content ?? []) {
        // The other form answers post_sampling_probs, which the console does not send.
        if (!('logprob' in one)) continue;
        const { token, logprob, bytes, top_logprobs: top } = one;
        tokens.push({
          token,
          logprob,
          bytes,
          top,
          at,
          text: characters.decode(new Uint8Array(bytes), { stream: true }),
        });
      }
    answer = {
      ...answer,
      text: answer.text + (content ?? ''),
      thought: answer.thought + (thought ?? ''),
      tokens: tokens.slice(),
      timing: { headers, pieces: pieces.slice() },
      state: 'writing',
      model: chunk.model,
      ...(choice?.finish_reason ? { finish: choice.finish_reason } : {}),
      ...(chunk.usage ? { usage: chunk.usage } : {}),
    };
    yield answer;
  }
  if (answer.finish === undefined)
    throw new Fault('The host ended the stream before the answer was complete.', {
      requestId: requestId ?? undefined,
    });
  yield { ...answer, state: 'done', timing: { ...answer.timing, end: now() } };
}

const brokenOff = ({ message, code, type }: NonNullable<Chunk['error']>, requestId: string | null): Fault =>
  new Fault(message, {
    code: code ?? type,
    requestId: requestId ?? undefined,
  });
