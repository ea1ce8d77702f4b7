import { z } from 'zod';
import type { Envelope } from '../../http/error.ts';

export const messagesError = z
  .object({
    type: z.literal('error'),
    error: z.object({
      type: z.string(),
      message: z.string(),
      details: z.object({
        error_code: z.string(),
        param: z.string().optional().describe('The member of the request that is at fault.'),
        unsupported: z.array(z.string()).optional().describe('With `thread_unsupported_request`.'),
        violations: z.array(z.object({ path: z.string(), message: z.string() })).optional(),
      }),
    }),
    request_id: z.string().nullable(),
  })
  .meta({ id: 'MessagesError' });

/** The code at which the official client sends the same request again with its whole conversation. */
export const noThreads = 'thread_unsupported_request';

/** Anthropic's envelope. */
export const messagesEnvelope: Envelope = ({ status, code, message, param, violations }, requestId) => ({
  type: 'error',
  error: {
    type: errorType(status),
    message,
    details: {
      error_code: code,
      ...(param === undefined ? {} : { param }),
      ...(code === noThreads ? { unsupported: ['thread'] } : {}),
      ...(violations ? { violations } : {}),
    },
  },
  request_id: requestId ?? null,
});

function errorType(status: number): string {
  switch (status) {
    case 401:
      return 'authentication_error';
    case 403:
      return 'permission_error';
    case 404:
      return 'not_found_error';
    case 408:
      return 'timeout_error';
    case 413:
      return 'request_too_large';
    case 429:
      return 'rate_limit_error';
    default:
      return status >= 500 ? 'api_error' : 'invalid_request_error';
  }
}
