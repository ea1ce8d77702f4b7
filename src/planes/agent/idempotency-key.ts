import { invalidBodyError } from '../../http/violations.ts';

const maxKeyChars = 255;
export const idempotencyKeyDescription = `Key of the request, 1 to ${maxKeyChars} characters.`;

export function readIdempotencyKey(headers: Headers): string | undefined {
  const key = headers.get('idempotency-key') ?? undefined;
  if (key === undefined || (key !== '' && key.length <= maxKeyChars)) return key;
  const message = `expected 1 to ${maxKeyChars} characters`;
  throw invalidBodyError([{ path: 'Idempotency-Key', message }]);
}
