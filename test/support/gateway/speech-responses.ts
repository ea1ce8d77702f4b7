import { frame } from './frames.ts';
import { openAiError } from './speech-openai.ts';
import type { ResolvedAnswer, Speech } from './speech.ts';

const usageOf = ({ usage }: ResolvedAnswer) => ({
  input_tokens: usage.input,
  input_tokens_details: { cached_tokens: usage.cacheRead, cache_write_tokens: usage.cacheWrite },
  output_tokens: usage.output,
  output_tokens_details: { reasoning_tokens: usage.reasoning },
  total_tokens: usage.input + usage.output,
});

const textPart = (text: string) => ({ type: 'output_text', text, annotations: [], logprobs: [] });

/** The items of the answer, whole. */
const itemsOf = (say: ResolvedAnswer): Record<string, unknown>[] => [
  ...(say.reasoning === ''
    ? []
    : [
        {
          type: 'reasoning',
          id: 'rs_1',
          summary: [{ type: 'summary_text', text: say.reasoning }],
          ...(say.signature === undefined ? {} : { encrypted_content: say.signature }),
        },
      ]),
  ...(say.text === '' && say.refusal === undefined
    ? []
    : [
        {
          type: 'message',
          id: 'msg_1',
          status: 'completed',
          role: 'assistant',
          content: [
            ...(say.text === '' ? [] : [textPart(say.text)]),
            ...(say.refusal === undefined ? [] : [{ type: 'refusal', refusal: say.refusal }]),
          ],
        },
      ]),
  ...say.calls.map(({ id, name, arguments: text }, index) => ({
    type: 'function_call',
    id: `fc_${index}`,
    call_id: id,
    name,
    arguments: text,
    status: 'completed',
  })),
];

function response(say: ResolvedAnswer, state: 'in_progress' | 'ended'): Record<string, unknown> {
  const cut = { length: 'max_output_tokens', content_filter: 'content_filter' }[say.finish as string];
  return {
    id: say.id,
    object: 'response',
    created_at: 1_790_000_000,
    status: state === 'in_progress' ? state : cut === undefined ? 'completed' : 'incomplete',
    error: null,
    incomplete_details: state === 'ended' && cut !== undefined ? { reason: cut } : null,
    instructions: null,
    metadata: {},
    model: say.model,
    output: state === 'ended' ? itemsOf(say) : [],
    parallel_tool_calls: true,
    temperature: 1,
    tool_choice: 'auto',
    tools: [],
    top_p: 1,
    ...(state === 'ended' && say.usageAt !== 'missing' ? { usage: usageOf(say) } : { usage: null }),
  };
}

export const responsesSpeech: Speech = {
  error: openAiError,
  body: (say) => response(say, 'ended'),
  frames: (say) => {
    const events: Record<string, unknown>[] = [
      { type: 'response.created', response: response(say, 'in_progress') },
      { type: 'response.in_progress', response: response(say, 'in_progress') },
      ...itemsOf(say).flatMap((item, index) => itemEvents(say, item, index)),
    ];
    const whole = response(say, 'ended');
    const end = { type: `response.${String(whole['status'])}`, response: whole };
    events.push(end, ...(say.usageAt === 'twice' ? [end] : []));
    return events.map((event, index) => frame({ ...event, sequence_number: index }, String(event['type'])));
  },
};

function itemEvents(
  say: ResolvedAnswer,
  item: Record<string, unknown>,
  index: number,
): Record<string, unknown>[] {
  const place = { item_id: item['id'], output_index: index };
  const added = (start: Record<string, unknown>) => ({
    type: 'response.output_item.added',
    output_index: index,
    item: { ...item, ...start },
  });
  const done = { type: 'response.output_item.done', output_index: index, item };
  if (item['type'] === 'reasoning')
    return [
      added({ summary: [] }),
      {
        type: 'response.reasoning_summary_part.added',
        ...place,
        summary_index: 0,
        part: { type: 'summary_text', text: '' },
      },
      ...say.pieces(say.reasoning).map((delta) => ({
        type: 'response.reasoning_summary_text.delta',
        ...place,
        summary_index: 0,
        delta,
      })),
      { type: 'response.reasoning_summary_text.done', ...place, summary_index: 0, text: say.reasoning },
      {
        type: 'response.reasoning_summary_part.done',
        ...place,
        summary_index: 0,
        part: { type: 'summary_text', text: say.reasoning },
      },
      done,
    ];
  if (item['type'] === 'function_call')
    return [
      added({ arguments: '', status: 'in_progress' }),
      ...say.pieces(String(item['arguments'])).map((delta) => ({
        type: 'response.function_call_arguments.delta',
        ...place,
        delta,
      })),
      {
        type: 'response.function_call_arguments.done',
        ...place,
        name: item['name'],
        arguments: item['arguments'],
      },
      done,
    ];
  return [
    added({ content: [], status: 'in_progress' }),
    ...(item['content'] as Record<string, unknown>[]).flatMap((part, content_index) => {
      const kind = part['type'] === 'refusal' ? 'refusal' : 'output_text';
      const member = kind === 'refusal' ? 'refusal' : 'text';
      const logprobs = kind === 'refusal' ? {} : { logprobs: [] };
      return [
        { type: 'response.content_part.added', ...place, content_index, part: { ...part, [member]: '' } },
        ...say.pieces(String(part[member])).map((delta) => ({
          type: `response.${kind}.delta`,
          ...place,
          content_index,
          delta,
          ...logprobs,
        })),
        {
          type: `response.${kind}.done`,
          ...place,
          content_index,
          [member]: part[member],
          ...logprobs,
        },
        { type: 'response.content_part.done', ...place, content_index, part },
      ];
    }),
    done,
  ];
}
