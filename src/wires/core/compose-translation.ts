import type { AnswerEvent } from './answer.ts';
import type { ClientWire, Translation, UpstreamWire } from './wire.ts';

/**
 * Composes the translation between a client wire and a provider wire, through the provider-neutral conversation and
 * events.
 */
export function composeTranslation(client: ClientWire, upstream: UpstreamWire): Translation {
  return {
    request: (request, options) => upstream.request(client.conversation(request), options),
    answer(text, metadata) {
      const events = upstream.answer(text);
      return { text: JSON.stringify(client.body(events, metadata)), events };
    },
    stream(metadata) {
      const reader = upstream.reader();
      const writer = client.writer(metadata);
      const write = (events: AnswerEvent[]) => {
        let text = '';
        // Failures are reported by the gateway, which may still try another provider.
        for (const event of events) if (event.type !== 'failure') text += writer.write(event);
        return { text, events };
      };
      return {
        push: (frame) => write(reader.push(frame)),
        finish: () => write(reader.end()),
        end: (receipt) => writer.end(receipt),
        fail: (error) => writer.fail(error),
      };
    },
    failure: upstream.failure,
  };
}
