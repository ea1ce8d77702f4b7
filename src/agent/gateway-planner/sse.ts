import { createParser } from 'eventsource-parser';
import { AgentError } from '../errors.ts';

/** Of one event, and of a whole answer: more is no answer any more. */
const most = { event: 8 * 1024 * 1024, answer: 64 * 1024 * 1024 };

type Body = AsyncIterable<Uint8Array>;

/** A body that is one text. */
export async function wholeText(body: Body): Promise<string> {
  const decoder = new TextDecoder();
  let bytes = 0;
  let text = '';
  for await (const chunk of body) {
    bytes += chunk.byteLength;
    if (bytes > most.event) throw tooLarge();
    text += decoder.decode(chunk, { stream: true });
  }
  return text + decoder.decode();
}

/** The `data` of a stream of events. */
export async function* sseData(body: Body): AsyncGenerator<string, void, undefined> {
  const found: string[] = [];
  let broken = false;
  const parser = createParser({
    maxBufferSize: most.event,
    onEvent: ({ data }) => found.push(data),
    onError: ({ type }) => {
      broken ||= type === 'max-buffer-size-exceeded';
    },
  });
  const decoder = new TextDecoder();
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.byteLength;
    parser.feed(decoder.decode(chunk, { stream: true }));
    if (broken || bytes > most.answer) throw tooLarge();
    yield* found.splice(0);
  }
  parser.reset({ consume: true });
  yield* found;
}

const tooLarge = () =>
  new AgentError('unavailable', 'gateway_answer_too_large', 'The answer of the gateway is too large.');
