import type { z } from 'zod';
import type { llamaError } from '../error-schema.ts';
import type { Envelope, HttpError } from '../../http/error.ts';

/** llama.cpp's envelope: the status as a number, and a type that goes with it. */
export const llamaEnvelope: Envelope = (problem) =>
  ({
    error: { code: problem.status, message: problem.message, type: errorType(problem) },
  }) satisfies z.infer<typeof llamaError>;

function errorType({ status, code }: HttpError): z.infer<typeof llamaError>['error']['type'] {
  if (code === 'context_length_exceeded') return 'exceed_context_size_error';
  switch (status) {
    case 401:
      return 'authentication_error';
    case 403:
      return 'permission_error';
    case 404:
      return 'not_found_error';
    case 429:
    case 503:
      return 'unavailable_error';
    case 501:
      return 'not_supported_error';
    default:
      return status >= 500 ? 'server_error' : 'invalid_request_error';
  }
}
