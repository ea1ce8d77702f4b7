/** The same small request on each client wire. */
export const wires = {
  chat: {
    path: '/v1/chat/completions',
    body: (model: string, stream: boolean, content = 'Hello there.') => ({
      model,
      stream,
      max_tokens: 200,
      messages: [{ role: 'user', content }],
      ...(stream ? { stream_options: { include_usage: true } } : {}),
    }),
  },
  responses: {
    path: '/v1/responses',
    body: (model: string, stream: boolean, content = 'Hello there.') => ({
      model,
      stream,
      max_output_tokens: 200,
      store: false,
      input: content,
    }),
  },
  messages: {
    path: '/v1/messages',
    body: (model: string, stream: boolean, content = 'Hello there.') => ({
      model,
      stream,
      max_tokens: 200,
      messages: [{ role: 'user', content }],
    }),
  },
  completions: {
    path: '/v1/completions',
    body: (model: string, stream: boolean, content = 'Hello there.') => ({
      model,
      stream,
      max_tokens: 200,
      prompt: content,
    }),
  },
  embeddings: {
    path: '/v1/embeddings',
    body: (model: string, _stream: boolean, content = 'Hello there.') => ({ model, input: content }),
  },
} as const;

export type CallerWire = keyof typeof wires;

/** The models that each wire serves. */
export const pairs: readonly (readonly [wire: CallerWire, model: string])[] = [
  ['chat', 'chat'],
  ['chat', 'responses'],
  ['chat', 'claude'],
  ['chat', 'gemini'],
  ['responses', 'chat'],
  ['responses', 'responses'],
  ['responses', 'claude'],
  ['responses', 'gemini'],
  ['messages', 'claude'],
  ['completions', 'chat'],
];
