import { OversizedEvent, SseParser } from '../../wires/core/sse-parser.ts';
import type { SseFrame } from '../../wires/core/wire.ts';
import { AgentError } from '../errors.ts';
import { brokeOff } from './refusals.ts';

/** Characters of an event, bytes of a body that is no stream. */
const maxEvent = 8 * 1024 * 1024;
/** Bytes of a stream. */
const maxAnswer = 64 * 1024 * 1024;

/**
 * What a gateway answers with. A server that knows no streams sends one body, which reads like a single chunk.
 * @param heard called for whatever comes, also what is no data: some send comments while a request waits for its turn
 */
export async function* framesOf(
  response: Response,
  heard: () => void,
): AsyncGenerator<SseFrame, void, undefined> {
  const parser = new SseParser(maxEvent);
  const whole: Uint8Array[] | undefined = response.headers.get('content-type')?.includes('json')
    ? []
    : undefined;
  let bytes = 0;
  try {
    for await (const chunk of response.body ?? []) {
      heard();
      bytes += chunk.byteLength;
      if (bytes > (whole ? maxEvent : maxAnswer)) throw new OversizedEvent();
      if (whole) whole.push(chunk);
      else yield* parser.push(chunk);
    }
  } catch (error) {
    if (!(error instanceof OversizedEvent)) throw brokeOff(error);
    throw new AgentError(
      'unavailable',
      'gateway_answer_too_large',
      'The answer of the gateway is too large.',
    );
  }
  if (whole) yield { event: undefined, data: new TextDecoder().decode(Buffer.concat(whole)), raw: '' };
  else yield* parser.end();
}
