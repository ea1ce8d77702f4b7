import { isRecord, parsedJson } from '../../util/json.ts';
import { WireError } from '../core/error.ts';
import { UpstreamFailure } from '../core/upstream-failure.ts';
import type { AnswerEvent } from '../core/answer.ts';
import { providerFault } from '../core/provider-faults.ts';
import type { UpstreamWire } from '../core/wire.ts';
import { finishOf, ItemReader } from './items.ts';
import { failureOf, ResponseReader } from './reader.ts';
import { requestOf } from './request.ts';
import { readUsage } from './usage.ts';

export const openaiResponses: UpstreamWire = {
  request: requestOf,
  answer: answerOf,
  reader: () => new ResponseReader(),
  failure: (status, text, headers) => {
    const body = parsedJson(text);
    const error = isRecord(body) ? body['error'] : undefined;
    const words = isRecord(error) ? error : { message: typeof error === 'string' ? error : undefined };
    return providerFault(status, words, headers);
  },
};

/** Reads a complete response. @throws UpstreamFailure where the text is not a response */
function answerOf(text: string): AnswerEvent[] {
  const response = parsedJson(text);
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
      again: true,
      unwell: true,
    });
  const { id, output } = response;
  const events: AnswerEvent[] = typeof id === 'string' ? [{ type: 'start', id }] : [];
  let calls = 0;
  for (const item of Array.isArray(output) ? output : []) {
    if (!isRecord(item)) continue;
    const reader = new ItemReader(item['type'], item['type'] === 'function_call' ? calls++ : undefined);
    events.push(...reader.begin(item), ...reader.end(item));
  }
  const usage = readUsage(response['usage']);
  if (usage) events.push({ type: 'usage', usage });
  const { status, error } = response;
  const isOver = status === undefined || status === 'completed' || status === 'incomplete';
  events.push(
    isOver && !isRecord(error) ? finishOf(response, calls) : failureOf(isRecord(error) ? error : {}),
  );
  return events;
}
