import { invalidRequest } from '../core/error.ts';
import type { Conversation } from '../core/conversation.ts';
import type { UpstreamOptions, UpstreamWire } from '../core/wire.ts';
import { readAnswer, GoogleReader } from './answer.ts';
import { classifyFailure } from './faults.ts';
import { writeRequestBody } from './request.ts';

function writeBodyText(conversation: Conversation, options: UpstreamOptions): string {
  try {
    return JSON.stringify(writeRequestBody(conversation, options));
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
      text: writeBodyText(conversation, options),
    };
  },
  canSearchWeb: true,
  answer: readAnswer,
  reader: () => new GoogleReader(),
  failure: classifyFailure,
};
