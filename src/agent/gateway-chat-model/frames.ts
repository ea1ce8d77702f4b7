import { OversizedEvent, SseParser } from '../../wires/core/sse-parser.ts';
import type { SseFrame } from '../../wires/core/wire.ts';
import { AgentError } from '../errors.ts';
import { interruptedError } from './errors.ts';

/** Characters of one event, or bytes of a JSON body. */
const maxEventLength = 8 * 1024 * 1024;
/** Bytes of a whole stream. */
const maxStreamBytes = 64 * 1024 * 1024;

/**
 * Reads the SSE frames of a gateway's response. A server without streaming sends one JSON body, which is read as a
 * single frame.
 * @param onActivity called for every chunk, comments included: some servers send them while a request is queued
 */
export async function* readFrames(
  response: Response,
  onActivity: () => void,
): AsyncGenerator<SseFrame, void, undefined> {
  const parser = new SseParser(maxEventLength);
  const jsonBody: Uint8Array[] | undefined = response.headers.get('content-type')?.includes('json')
    ? []
    : undefined;
  let bytes = 0;
  try {
    for await (const chunk of response.body ?? []) {
      onActivity();
      bytes += chunk.byteLength;
      if (bytes > (jsonBody ? maxEventLength : maxStreamBytes)) throw new OversizedEvent();
      if (jsonBody) jsonBody.push(chunk);
      else yield* parser.push(chunk);
    }
  } catch (error) {
    if (!(error instanceof OversizedEvent)) throw interruptedError(error);
    throw new AgentError(
      'unavailable',
      'gateway_answer_too_large',
      'The answer of the gateway is too large.',
    );
  }
  if (jsonBody) yield { event: undefined, data: new TextDecoder().decode(Buffer.concat(jsonBody)), raw: '' };
  else yield* parser.end();
}
