import { unsupported } from './error.ts';
import type { AnswerEvent } from './answer.ts';
import type { ClientWire, Translation, UpstreamWire } from './wire.ts';

/**
 * Composes the translation between a client wire and a provider wire, through the provider-neutral conversation and
 * events.
 */
export function composeTranslation(client: ClientWire, upstream: UpstreamWire): Translation {
  return {
    request(request, options) {
      const conversation = client.conversation(request);
      if (conversation.webSearch && !upstream.canSearchWeb)
        throw unsupported(
          'web_search_options',
          `${options.model.id} does not search the web here; leave it out.`,
        );
      return upstream.request(conversation, options);
    },
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
