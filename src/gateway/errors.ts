import { WireError } from '../wires/core/error.ts';

/** Every failure to say who asks: always the same, whatever failed. */
export const invalidApiKey = (): WireError =>
  new WireError(
    401,
    'invalid_request_error',
    'No valid API key came with the request: send one as `Authorization: Bearer KEY`, `x-api-key: KEY` or `api-key: KEY`.',
    { code: 'invalid_api_key', headers: { 'www-authenticate': 'Bearer' } },
  );
