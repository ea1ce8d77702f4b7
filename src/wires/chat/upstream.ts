import { isRecord, tryParseJson } from '../../util/json.ts';
import { WireError } from '../core/error.ts';
import { UpstreamFailure } from '../core/upstream-failure.ts';
import type { AnswerEvent } from '../core/answer.ts';
import { faultInStream } from '../core/provider-faults.ts';
import type { UpstreamWire } from '../core/wire.ts';
import { classifyFailure } from './failure.ts';
import { ChunkReader, errorFields } from './reader.ts';
import { writeRequest } from './request.ts';

/** OpenAI's chat completions, also spoken by Mistral, DeepSeek, xAI and other hosts of this project. */
export const openaiChat: UpstreamWire = {
  request: writeRequest,
  answer: (text) => readEvents(parseCompletion(text)),
  reader: () => new ChunkReader(),
  failure: classifyFailure,
};

/** Parses the body of a completion. @throws UpstreamFailure where the text is not a completion */
export function parseCompletion(text: string): Readonly<Record<string, unknown>> {
  const body = tryParseJson(text);
  if (isRecord(body) && Array.isArray(body['choices']) && !body['error']) return body;
  if (isRecord(body) && body['error']) throw new UpstreamFailure(faultInStream(errorFields(body)));
  throw new UpstreamFailure({
    error: new WireError(
      502,
      'upstream_error',
      'The provider sent a response that is not a completion; try again.',
      {
        code: 'upstream_failed',
      },
    ),
    isRetryable: true,
    isUnhealthy: true,
  });
}

/** Reads a complete answer as a stream of one chunk. */
export function readEvents(body: Readonly<Record<string, unknown>>, answers = 1): AnswerEvent[] {
  const reader = new ChunkReader(answers);
  return [...reader.read(body), ...reader.read('done')];
}
