import { isRecord, tryParseJson } from '../../util/json.ts';
import { WireError } from '../core/error.ts';
import { UpstreamFailure } from '../core/upstream-failure.ts';
import type { AnswerEvent } from '../core/answer.ts';
import { providerFault } from '../core/provider-faults.ts';
import type { UpstreamWire } from '../core/wire.ts';
import { createFinishEvent, OutputItemReader } from './items.ts';
import { toFailureEvent, ResponseReader } from './reader.ts';
import { writeRequest } from './request.ts';
import { readUsage } from './usage.ts';

export const openaiResponses: UpstreamWire = {
  request: writeRequest,
  answer: readAnswer,
  reader: () => new ResponseReader(),
  failure: (status, text, headers) => {
    const body = tryParseJson(text);
    const error = isRecord(body) ? body['error'] : undefined;
    const errorFields = isRecord(error) ? error : { message: typeof error === 'string' ? error : undefined };
    return providerFault(status, errorFields, headers);
  },
};

/** Reads a complete response. @throws UpstreamFailure where the text is not a response */
function readAnswer(text: string): AnswerEvent[] {
  const response = tryParseJson(text);
  if (!isRecord(response) || !(Array.isArray(response['output']) || isRecord(response['error'])))
    throw new UpstreamFailure({
      error: new WireError(
        502,
        'upstream_error',
        'The provider sent a body that is not a response; try again.',
        {
          code: 'upstream_failed',
        },
      ),
      isRetryable: true,
      isUnhealthy: true,
    });
  const { id, output } = response;
  const events: AnswerEvent[] = typeof id === 'string' ? [{ type: 'start', id }] : [];
  let callCount = 0;
  for (const item of Array.isArray(output) ? output : []) {
    if (!isRecord(item)) continue;
    const reader = new OutputItemReader(
      item['type'],
      item['type'] === 'function_call' ? callCount++ : undefined,
    );
    events.push(...reader.begin(item), ...reader.end(item));
  }
  const usage = readUsage(response);
  if (usage) events.push({ type: 'usage', usage });
  const { status, error } = response;
  const hasEnded = status === undefined || status === 'completed' || status === 'incomplete';
  events.push(
    hasEnded && !isRecord(error)
      ? createFinishEvent(response, callCount)
      : toFailureEvent(isRecord(error) ? error : {}),
  );
  return events;
}
