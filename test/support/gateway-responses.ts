import type { Model } from '../../src/gateway/catalog/types.ts';
import type { Cap, Effort } from '../../src/wires/core/types.ts';
import type { WireKind } from '../../src/wires/providers.ts';
import type { AnswerEvent } from '../../src/wires/core/answer.ts';
import { responsesWire } from '../../src/wires/responses/client.ts';
import type {
  AnswerMetadata,
  ClientRequest,
  StreamReceipt,
  StreamWriter,
} from '../../src/wires/core/wire.ts';

const price = {
  input: 1n,
  output: 1n,
  cacheRead: 1n,
  cacheWrite: 1n,
  cacheWrite1h: 1n,
  identity: 'sha256:0',
};

export const testModel = (
  more: { caps?: readonly Cap[]; efforts?: readonly Effort[]; family?: string; wire?: WireKind } = {},
): Model => {
  const { caps = ['chat', 'tools'], efforts = [], family = 'openai', wire = 'openai-responses' } = more;
  return {
    id: 'house/model',
    provider: { id: 'p', wire, baseUrls: ['http://127.0.0.1'], apiKey: 'k', access: 'house' },
    upstream: 'gpt-upstream',
    family,
    caps: new Set(caps),
    contextWindow: 100_000,
    maxOutputTokens: 10_000,
    price,
    pricing: {
      in_usd_per_mtok: '1',
      out_usd_per_mtok: '1',
      cache_read_usd_per_mtok: '1',
      cache_write_usd_per_mtok: '1',
    },
    displayName: 'Model',
    embeddingDimensions: undefined,
    efforts,
  };
};

export const clientRequest = (body: Record<string, unknown> | string): ClientRequest => {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  const parsed = JSON.parse(text) as Record<string, unknown>;
  return { text, body: parsed, facts: responsesWire.facts(parsed, text), header: () => undefined };
};

export const aboutOf = (body: Record<string, unknown> = { model: 'm', input: 'hi' }): AnswerMetadata => ({
  requestId: 'req_1',
  model: 'house/model',
  created: 1_790_000_000,
  request: clientRequest(body),
});

export const receipt: StreamReceipt = {
  cost: { total: 5n, components: { fresh: 5n, cache_write: 0n, cache_read: 0n, output: 0n } },
  requestId: 'req_1',
  effectiveModel: 'house/model',
  reason: 'as_requested',
};

export const streamed = (
  events: readonly AnswerEvent[],
  writer: StreamWriter = responsesWire.writer(aboutOf()),
): string => events.map((event) => writer.write(event)).join('') + writer.end(receipt);

/** Events whose neighbours of one kind are one event, so that the size of pieces does not count. */
export function merged(events: readonly AnswerEvent[]): AnswerEvent[] {
  const whole: AnswerEvent[] = [];
  for (const event of events) {
    const last = whole.at(-1);
    const isPiece = event.type === 'text' || event.type === 'refusal' || event.type === 'reasoning';
    if (isPiece && last?.type === event.type) {
      const logprobs =
        event.type === 'text' && last.type === 'text'
          ? [...(last.logprobs ?? []), ...(event.logprobs ?? [])]
          : [];
      const text = last.text + event.text;
      whole[whole.length - 1] = {
        ...last,
        text,
        ...(logprobs.length > 0 ? { logprobs } : {}),
      } as AnswerEvent;
    } else if (
      event.type === 'tool_arguments' &&
      last?.type === 'tool_arguments' &&
      last.index === event.index
    )
      whole[whole.length - 1] = { ...last, text: last.text + event.text };
    else whole.push(event);
  }
  return whole;
}
