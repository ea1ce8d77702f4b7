import type { Translation } from '../core/wire.ts';
import { classifyFailure } from './failure.ts';
import { repairBody } from './repair.ts';
import { editRequest } from './passthrough-request.ts';
import { PassthroughStream } from './passthrough-stream.ts';
import { parseCompletion, readEvents } from './upstream.ts';

/** Translation where both sides speak chat completions: everything passes unchanged except for required edits. */
export const chatPassthrough: Translation = {
  request: editRequest,
  answer(text, metadata) {
    const body = parseCompletion(text);
    const events = readEvents(body, metadata.request.facts.answers);
    const isRepaired = repairBody(body, metadata);
    return { text: isRepaired ? JSON.stringify(body) : text, events };
  },
  stream: (metadata) => new PassthroughStream(metadata),
  failure: classifyFailure,
};
