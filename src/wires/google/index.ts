import { invalidRequest } from '../core/error.ts';
import type { Conversation } from '../core/conversation.ts';
import type { UpstreamOptions, UpstreamWire } from '../core/wire.ts';
import { answerEvents, GoogleReader } from './answer.ts';
import { googleFailure } from './faults.ts';
import { requestBody } from './request.ts';

function bodyText(conversation: Conversation, options: UpstreamOptions): string {
  try {
    return JSON.stringify(requestBody(conversation, options));
  } catch (error) {
    // Stack overflow.
    if (!(error instanceof RangeError)) throw error;
    throw invalidRequest('A schema or the arguments of a call are nested too deeply; flatten them.');
  }
}

/** `generateContent` and `streamGenerateContent` of Google's Gemini API, v1beta. */
export const google: UpstreamWire = {
  request(conversation, options) {
    const { model, stream } = options;
    const method = stream ? 'streamGenerateContent?alt=sse' : 'generateContent';
    return {
      path: `/models/${encodeURIComponent(model.upstream)}:${method}`,
      headers: {},
      text: bodyText(conversation, options),
    };
  },
  answer: answerEvents,
  reader: () => new GoogleReader(),
  failure: googleFailure,
};
