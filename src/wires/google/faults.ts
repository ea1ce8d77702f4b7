import { isRecord, type Json, parsedJson } from '../../util/json.ts';
import { faultInStream, providerFault } from '../core/provider-faults.ts';
import type { UpstreamFault } from '../core/wire.ts';

/** Classifies a response with a status other than 2xx. */
export function googleFailure(
  status: number,
  text: string,
  headers: Readonly<Record<string, string>>,
): UpstreamFault {
  const body = parsedJson(text);
  // A stream that fails before it begins is answered with an array.
  const whole: unknown = Array.isArray(body) ? (body as unknown[])[0] : body;
  const error = isRecord(whole) && isRecord(whole['error']) ? whole['error'] : undefined;
  const fault = providerFault(statusOf(status, error), wordsOf(error, text), headers);
  return withDelay(fault, error);
}

/** Classifies an `error` within a stream. */
export const streamFailure = (error: Json): UpstreamFault => {
  const code = typeof error['code'] === 'number' ? error['code'] : undefined;
  if (code === undefined) return withDelay(faultInStream(wordsOf(error)), error);
  return withDelay(providerFault(statusOf(code, error), wordsOf(error), {}), error);
};

const wordsOf = (error: Json | undefined, text = '') => ({
  // An HTML page of a proxy contains nothing useful for the caller.
  message: error ? error['message'] : /^\s*</.test(text) ? undefined : text,
  type: error?.['status'],
});

/** Google answers 400 to a wrong key, and to an account without access (by country or billing). */
function statusOf(status: number, error: Json | undefined): number {
  if (status !== 400 || !error) return status;
  const keys = detailsOf(error, 'ErrorInfo').map(({ reason }) => reason);
  if (keys.includes('API_KEY_INVALID') || keys.includes('API_KEY_EXPIRED')) return 401;
  return error['status'] === 'FAILED_PRECONDITION' ? 403 : 400;
}

function withDelay(fault: UpstreamFault, error: Json | undefined): UpstreamFault {
  const [delay] = detailsOf(error, 'RetryInfo').map(({ retryDelay }) => retryDelay);
  const seconds = typeof delay === 'string' ? /^(\d+(?:\.\d+)?)s$/.exec(delay)?.[1] : undefined;
  return seconds === undefined ? fault : { ...fault, retryAfterMs: Math.ceil(Number(seconds) * 1000) };
}

const detailsOf = (error: Json | undefined, type: string): Json[] => {
  const details = error?.['details'];
  if (!Array.isArray(details)) return [];
  return details
    .filter(isRecord)
    .filter((each) => each['@type'] === `type.googleapis.com/google.rpc.${type}`);
};
