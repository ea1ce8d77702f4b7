import { WireError } from '../wires/core/error.ts';

/** The error of every authentication failure. It is always the same, so that causes cannot be told apart. */
export const invalidApiKey = (): WireError =>
  new WireError(
    401,
    'invalid_request_error',
    'The API key is missing, unknown, expired, revoked or disabled. Send it as `Authorization: Bearer KEY`, `x-api-key: KEY` or `api-key: KEY`.',
    { code: 'invalid_api_key', headers: { 'www-authenticate': 'Bearer' } },
  );
