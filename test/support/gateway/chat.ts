import type { AnswerEvent } from '../../../src/wires/core/answer.ts';
import type {
  AnswerMetadata,
  ClientRequest,
  ClientWire,
  StreamTranslation,
} from '../../../src/wires/core/wire.ts';
import type { SseFrame } from '../../../src/wires/core/wire.ts';

/** A request as the gateway passes it on. */
export function clientRequestOn(wire: ClientWire, body: object): ClientRequest {
  const text = JSON.stringify(body);
  const parsed = JSON.parse(text) as Record<string, unknown>;
  return { text, body: parsed, facts: wire.facts(parsed, text), header: () => undefined };
}

export const aboutOf = (request: ClientRequest): AnswerMetadata => ({
  requestId: `req_${'0'.repeat(32)}`,
  model: 'the-model',
  created: 1_700_000_000,
  request,
});

const receipt = {
  cost: { total: 0n, components: { fresh: 0n, cache_write: 0n, cache_read: 0n, output: 0n } },
  requestId: 'req_0',
  effectiveModel: 'the-model',
  reason: 'as_requested',
} as const;

/** The result of translating frames: the caller's text and the answer events. */
export function through(
  stream: StreamTranslation,
  frames: readonly SseFrame[],
): { text: string; events: AnswerEvent[] } {
  let text = '';
  const events: AnswerEvent[] = [];
  for (const passed of [...frames.map((frame) => stream.push(frame)), stream.finish()]) {
    text += passed.text;
    events.push(...passed.events);
  }
  const failure = events.find((event) => event.type === 'failure');
  return { text: text + (failure ? stream.fail(failure.error) : stream.end(receipt)), events };
}

/** Content events only, with adjacent pieces joined. */
export function contentsOf(events: readonly AnswerEvent[]): AnswerEvent[] {
  const whole: AnswerEvent[] = [];
  for (const event of events) {
    if (event.type === 'start' || event.type === 'usage') continue;
    const last = whole.at(-1);
    if ('text' in event && event.text === '' && !('logprobs' in event)) continue;
    if (
      last &&
      'text' in last &&
      'text' in event &&
      last.type === event.type &&
      !('logprobs' in last) &&
      !('logprobs' in event) &&
      (!('index' in last) || !('index' in event) || last.index === event.index)
    )
      whole[whole.length - 1] = { ...last, text: last.text + event.text } as AnswerEvent;
    else whole.push(event);
  }
  return whole;
}
