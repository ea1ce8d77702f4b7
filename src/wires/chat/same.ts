import type { Translation } from '../core/wire.ts';
import { failureOf } from './failure.ts';
import { repairBody } from './repair.ts';
import { sameRequest } from './same-request.ts';
import { SameStream } from './same-stream.ts';
import { completionIn, eventsOf } from './upstream.ts';

/** Translation where both sides speak chat completions: everything passes unchanged except for required edits. */
export const chatSame: Translation = {
  request: sameRequest,
  answer(text, about) {
    const body = completionIn(text);
    const events = eventsOf(body, about.request.facts.answers);
    const isRepaired = repairBody(body, about);
    return { text: isRepaired ? JSON.stringify(body) : text, events };
  },
  stream: (about) => new SameStream(about),
  failure: failureOf,
};
