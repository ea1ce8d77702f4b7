import type { Envelope, HttpError } from '../../http/error.ts';

/** OpenAI's envelope: all four members always there. */
export const openaiEnvelope: Envelope = (problem) => ({ error: toOpenAIError(problem) });

export const toOpenAIError = ({ status, code, message, param, violations }: HttpError) => ({
  message,
  type: errorType(status),
  param: param ?? null,
  code: code ?? null,
  ...(violations ? { violations } : {}),
});

function errorType(status: number): string {
  if (status === 429) return 'rate_limit_error';
  return status >= 500 ? 'server_error' : 'invalid_request_error';
}
