interface Chunk {
  readonly choices?: readonly { readonly delta?: { readonly content?: string } }[];
  readonly usage?: { readonly prompt_tokens: number; readonly completion_tokens: number } | null;
}

export interface StreamedAnswer {
  /** From the request to the first text. */
  readonly firstTextMs: number;
  readonly tokens: number;
  readonly promptTokens: number;
}

/**
 * Requests a streamed chat completion from `url` and reads it to the end.
 * @param options.key API key, by which a host tells clients apart
 * @throws Error with the response body when the request is refused, or when the stream ends early
 */
export async function chatStream(
  url: string,
  request: Readonly<Record<string, unknown>>,
  { key, signal }: { readonly key?: string; readonly signal?: AbortSignal } = {},
): Promise<StreamedAnswer> {
  const start = performance.now();
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
    },
    ...(signal ? { signal } : {}),
    body: JSON.stringify({ ...request, stream: true, stream_options: { include_usage: true } }),
  });
  if (!response.ok || !response.body) {
    throw new Error(`chat completion: ${response.status} ${await response.text()}`);
  }
  let firstTextMs = 0;
  let usage: Chunk['usage'];
  let rest = '';
  for await (const text of response.body.pipeThrough(new TextDecoderStream())) {
    const frames = (rest + text).split('\n\n');
    rest = frames.pop() ?? '';
    for (const frame of frames) {
      const data = frame.replace(/^data: /, '');
      if (data === '[DONE]') continue;
      const chunk = JSON.parse(data) as Chunk;
      if (firstTextMs === 0 && chunk.choices?.[0]?.delta?.content) firstTextMs = performance.now() - start;
      usage = chunk.usage ?? usage;
    }
  }
  if (!usage || firstTextMs === 0) throw new Error('the chat completion ended without text or usage');
  return { firstTextMs, tokens: usage.completion_tokens, promptTokens: usage.prompt_tokens };
}
