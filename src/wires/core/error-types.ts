/** Error type names of each wire. */
interface ErrorTypes {
  readonly openai: 'invalid_request_error' | 'rate_limit_error' | 'server_error';
  readonly anthropic: string;
  readonly llamaCpp: LlamaCppErrorType;
}

export const llamaCppErrorTypes = [
  'invalid_request_error',
  'authentication_error',
  'permission_error',
  'not_found_error',
  'exceed_context_size_error',
  'server_error',
  'not_supported_error',
  'unavailable_error',
] as const;
type LlamaCppErrorType = (typeof llamaCppErrorTypes)[number];

const invalid = 'invalid_request_error';
const refused: ErrorTypes = { openai: invalid, anthropic: invalid, llamaCpp: invalid };
const failed: ErrorTypes = { openai: 'server_error', anthropic: 'api_error', llamaCpp: 'server_error' };
/** Error types with the same name on the wires of Anthropic and llama.cpp. */
const sameTypeFor = (type: 'authentication_error' | 'permission_error' | 'not_found_error'): ErrorTypes => ({
  ...refused,
  anthropic: type,
  llamaCpp: type,
});

const byStatus: Readonly<Record<number, ErrorTypes>> = {
  401: sameTypeFor('authentication_error'),
  403: sameTypeFor('permission_error'),
  404: sameTypeFor('not_found_error'),
  408: { ...refused, anthropic: 'timeout_error' },
  413: { ...refused, anthropic: 'request_too_large' },
  429: { openai: 'rate_limit_error', anthropic: 'rate_limit_error', llamaCpp: 'unavailable_error' },
  501: { ...failed, llamaCpp: 'not_supported_error' },
  503: { ...failed, llamaCpp: 'unavailable_error' },
};

/** Error types for an HTTP status; statuses without an entry follow from their class. */
export const errorTypes = (status: number): ErrorTypes =>
  byStatus[status] ?? (status >= 500 ? failed : refused);
