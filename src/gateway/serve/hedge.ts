import type { Model } from '../catalog/types.ts';
import { invalidRequest, unsupported } from '../../wires/core/error.ts';

const name = 'x-svc-hedge';
const maxDelayMs = 60_000;

/**
 * How long the first deployment may take until a second one is asked, in ms: `x-svc-hedge: 300ms`.
 * @returns undefined where the request does not ask for it
 * @throws WireError 400; also where the model does not allow it
 */
export function parseHedgeDelay(
  header: (name: string) => string | undefined,
  { id, routing }: Model,
): number | undefined {
  const value = header(name)?.trim();
  if (value === undefined) return undefined;
  const [, digits, unit] = /^(\d{1,5})(ms|s)$/.exec(value) ?? [];
  const delayMs = Number(digits) * (unit === 's' ? 1000 : 1);
  if (digits === undefined || delayMs < 1 || delayMs > maxDelayMs)
    throw invalidRequest(
      `${name} must be a time from 1ms to 60s, such as 300ms, got '${value.slice(0, 60)}'.`,
      {
        param: name,
      },
    );
  if (routing?.hedge !== true)
    throw unsupported(
      name,
      `requests to ${id} cannot be hedged: its configuration does not allow it; leave it out.`,
    );
  return delayMs;
}
