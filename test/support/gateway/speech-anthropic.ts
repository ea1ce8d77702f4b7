import { frame } from './frames.ts';
import type { ResolvedAnswer, Speech } from './speech.ts';

const inputOf = ({ usage }: ResolvedAnswer) => ({
  input_tokens: usage.input - usage.cacheRead - usage.cacheWrite - usage.cacheWrite1h,
  cache_creation_input_tokens: usage.cacheWrite + usage.cacheWrite1h,
  cache_read_input_tokens: usage.cacheRead,
  cache_creation: {
    ephemeral_5m_input_tokens: usage.cacheWrite,
    ephemeral_1h_input_tokens: usage.cacheWrite1h,
  },
});
const outputOf = ({ usage }: ResolvedAnswer) => ({
  output_tokens: usage.output,
  output_tokens_details: { thinking_tokens: usage.reasoning },
});

const stopReason = (say: ResolvedAnswer): string =>
  ({ stop: 'end_turn', length: 'max_tokens', tool_calls: 'tool_use', content_filter: 'refusal' })[say.finish];

const blocksOf = (say: ResolvedAnswer): Record<string, unknown>[] => [
  ...(say.reasoning === ''
    ? []
    : [{ type: 'thinking', thinking: say.reasoning, signature: say.signature ?? 'sig' }]),
  ...(say.text === '' ? [] : [{ type: 'text', text: say.text }]),
  ...say.calls.map(({ id, name, arguments: text }) => ({
    type: 'tool_use',
    id,
    name,
    input: JSON.parse(text === '' ? '{}' : text) as unknown,
  })),
];

const message = (say: ResolvedAnswer, more: object) => ({
  id: say.id,
  type: 'message',
  role: 'assistant',
  model: say.model,
  stop_sequence: null,
  ...more,
});

const kinds: Readonly<Record<number, string>> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  429: 'rate_limit_error',
  529: 'overloaded_error',
};

export const anthropicSpeech: Speech = {
  error: (status, text) => ({
    type: 'error',
    error: { type: kinds[status] ?? 'api_error', message: text },
    request_id: 'req_said',
  }),
  body: (say) =>
    message(say, {
      content: blocksOf(say),
      stop_reason: stopReason(say),
      ...(say.usageAt === 'missing' ? {} : { usage: { ...inputOf(say), ...outputOf(say) } }),
    }),
  frames: (say) => {
    const { usageAt } = say;
    const silent = usageAt === 'missing' || usageAt === 'late';
    const whole = { ...inputOf(say), ...outputOf(say) };
    const delta = {
      type: 'message_delta',
      delta: { stop_reason: stopReason(say), stop_sequence: null },
      ...(usageAt === 'missing' ? {} : { usage: usageAt === 'usual' ? outputOf(say) : whole }),
    };
    const start = silent ? { input_tokens: 0, output_tokens: 0 } : { ...inputOf(say), output_tokens: 1 };
    const opening = {
      type: 'message_start',
      message: message(say, { content: [], stop_reason: null, usage: start }),
    };
    const events: { type: string }[] = [
      opening,
      { type: 'ping' },
      ...blocksOf(say).flatMap((block, index) => blockEvents(say, block, index)),
      delta,
      ...(usageAt === 'twice' ? [delta] : []),
      { type: 'message_stop' },
    ];
    return events.map((event) => frame(event, event.type));
  },
};

function blockEvents(say: ResolvedAnswer, block: Record<string, unknown>, index: number): { type: string }[] {
  const start = (empty: object) => ({
    type: 'content_block_start',
    index,
    content_block: { ...block, ...empty },
  });
  const delta = (piece: object) => ({ type: 'content_block_delta', index, delta: piece });
  const stop = { type: 'content_block_stop', index };
  if (block['type'] === 'thinking')
    return [
      start({ thinking: '', signature: '' }),
      ...say.pieces(say.reasoning).map((thinking) => delta({ type: 'thinking_delta', thinking })),
      delta({ type: 'signature_delta', signature: block['signature'] }),
      stop,
    ];
  if (block['type'] === 'text')
    return [
      start({ text: '' }),
      ...say.pieces(say.text).map((text) => delta({ type: 'text_delta', text })),
      stop,
    ];
  return [
    start({ input: {} }),
    ...say
      .pieces(JSON.stringify(block['input']))
      .map((partial_json) => delta({ type: 'input_json_delta', partial_json })),
    stop,
  ];
}
