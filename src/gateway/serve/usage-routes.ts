import { z } from 'zod';
import { WireError } from '../../wires/core/error.ts';
import { Violations } from '../../wires/core/violations.ts';
import { toUsageBody, usageSchema } from '../usage/bodies.ts';
import {
  daysIn,
  parseUsageDimensions,
  parseUsageSince,
  parseUsageUntil,
  toDay,
  usageDimensions,
  type UsageDimension,
  type UsagePeriod,
} from '../usage/query.ts';
import { jsonAnswer } from './answers.ts';
import { receiptSchema, toReceiptBody } from './receipt-body.ts';
import type { GatewayRoute } from './routes.ts';
import type { GatewayServices } from './services.ts';

/** Limits of one report. */
const maxPeriodDays = 400;
const maxLines = 10_000;

const parameters = {
  by: z
    .string()
    .describe(
      `What to add up by, separated by commas: ${usageDimensions.join(', ')}. Default: model. A key sees only its own usage.`,
    ),
  since: z
    .string()
    .describe('First day: 30d (today and the 29 days before; the default), 2026-01-31, or 2026-01; in UTC.'),
  until: z.string().describe('Last day: 2026-01-31 or 2026-01. Default: today.'),
};

/** @throws WireError 400 with all violations */
function parseUsageQuery(
  query: URLSearchParams,
  now: Date,
): UsagePeriod & { readonly by: readonly UsageDimension[] } {
  const violations = new Violations();
  const names = Object.keys(parameters);
  for (const name of new Set(query.keys()))
    if (!names.includes(name)) violations.add(name, `expected only ${names.join(', ')}`);
    else if (query.getAll(name).length > 1) violations.add(name, 'expected it once');
  const read = <T>(name: string, fallback: T, parse: (value: string) => T): T => {
    const value = query.get(name);
    if (value === null) return fallback;
    try {
      return parse(value);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      violations.add(name, error.message);
      return fallback;
    }
  };
  const by = read<UsageDimension[]>('by', ['model'], parseUsageDimensions);
  const since = read('since', parseUsageSince('30d'), parseUsageSince)(now);
  const until = read('until', toDay(now), parseUsageUntil);
  violations.throwIfAny();
  if (since > until) violations.add('since', `expected a day up to ${until}, got ${since}`);
  else if (daysIn({ since, until }) > maxPeriodDays)
    violations.add('since', `expected at most ${maxPeriodDays} days, got ${daysIn({ since, until })}`);
  violations.throwIfAny();
  return { by, since, until };
}

/** What a key spent, and the receipts of its requests. */
export const usageRoutes = ({ authenticator, ledger }: GatewayServices): GatewayRoute[] => [
  {
    method: 'GET',
    path: '/v1/usage',
    summary: 'Requests, tokens and spend of this key',
    query: parameters,
    answerBody: usageSchema,
    refusals: {
      400: `A parameter is invalid (invalid_request_error), or there are more than ${maxLines} lines (too_many_lines).`,
    },
    async answer({ receipt, header, url }) {
      const { key } = await authenticator.confirm(header);
      const query = parseUsageQuery(new URL(url()).searchParams, new Date());
      const lines = await ledger.usage({ ...query, keyId: key.id }, maxLines);
      if (!lines)
        throw new WireError(
          400,
          'invalid_request_error',
          `The report has more than ${maxLines} lines; ask for a shorter period, or by less.`,
          { code: 'too_many_lines', param: 'by' },
        );
      return jsonAnswer(receipt, 200, JSON.stringify(toUsageBody(query, lines)));
    },
  },
  {
    method: 'GET',
    path: '/v1/receipts/{request_id}',
    summary: 'The receipt of one request of this key, streams included',
    params: { request_id: 'The x-svc-request-id of the answer.' },
    answerBody: receiptSchema,
    refusals: {
      404: 'receipt_not_found',
      409: 'request_in_progress, with Retry-After: the request is still running.',
    },
    async answer({ receipt, header }, { request_id: requestId = '' }) {
      const { key } = await authenticator.confirm(header);
      const request = await ledger.request(key.id, requestId);
      if (request === undefined)
        throw new WireError(
          404,
          'invalid_request_error',
          `This key has no receipt of a request '${requestId.slice(0, 100)}'; the id is in the header x-svc-request-id of its answer.`,
          { code: 'receipt_not_found', param: 'request_id' },
        );
      if (request === 'running')
        throw new WireError(
          409,
          'invalid_request_error',
          `The request ${requestId} is still running; its receipt is available when it ends.`,
          { code: 'request_in_progress', headers: { 'retry-after': '1' } },
        );
      return jsonAnswer(receipt, 200, JSON.stringify(toReceiptBody(request)));
    },
  },
];
