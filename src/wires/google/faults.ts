import { isRecord, type Json, tryParseJson } from '../../util/json.ts';
import { faultInStream, providerFault } from '../core/provider-faults.ts';
import type { UpstreamFault } from '../core/wire.ts';

/** Classifies a response with a status other than 2xx. */
export function classifyFailure(
  status: number,
  text: string,
  headers: Readonly<Record<string, string>>,
): UpstreamFault {
  const body = tryParseJson(text);
  // A stream that fails before it begins is answered with an array.
  const firstObject: unknown = Array.isArray(body) ? (body as unknown[])[0] : body;
  const error = isRecord(firstObject) && isRecord(firstObject['error']) ? firstObject['error'] : undefined;
  const fault = providerFault(effectiveStatus(status, error), errorFields(error, text), headers);
  return withRetryDelay(fault, error);
}

/** Classifies an `error` within a stream. */
export const classifyStreamError = (error: Json): UpstreamFault => {
  const code = typeof error['code'] === 'number' ? error['code'] : undefined;
  if (code === undefined) return withRetryDelay(faultInStream(errorFields(error)), error);
  return withRetryDelay(providerFault(effectiveStatus(code, error), errorFields(error), {}), error);
};

const errorFields = (error: Json | undefined, text = '') => ({
  // An HTML page of a proxy contains nothing useful for the caller.
  message: error ? error['message'] : /^\s*</.test(text) ? undefined : text,
  type: error?.['status'],
});

/** Google answers 400 to a wrong key, and to an account without access (by country or billing). */
function effectiveStatus(status: number, error: Json | undefined): number {
  if (status !== 400 || !error) return status;
  const reasons = findDetails(error, 'ErrorInfo').map(({ reason }) => reason);
  if (reasons.includes('API_KEY_INVALID') || reasons.includes('API_KEY_EXPIRED')) return 401;
  return error['status'] === 'FAILED_PRECONDITION' ? 403 : 400;
}

function withRetryDelay(fault: UpstreamFault, error: Json | undefined): UpstreamFault {
  const [delay] = findDetails(error, 'RetryInfo').map(({ retryDelay }) => retryDelay);
  const seconds = typeof delay === 'string' ? /^(\d+(?:\.\d+)?)s$/.exec(delay)?.[1] : undefined;
  return seconds === undefined ? fault : { ...fault, retryAfterMs: Math.ceil(Number(seconds) * 1000) };
}

const findDetails = (error: Json | undefined, type: string): Json[] => {
  const details = error?.['details'];
  if (!Array.isArray(details)) return [];
  return details
    .filter(isRecord)
    .filter((detail) => detail['@type'] === `type.googleapis.com/google.rpc.${type}`);
};
