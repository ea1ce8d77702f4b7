import { WireError } from '../../wires/core/error.ts';
import { toUsageBody, usageSchema } from '../usage/bodies.ts';
import { maxUsageLines, parseUsageQuery, tooManyLines, usageParameters } from '../usage/parameters.ts';
import { jsonAnswer } from './answers.ts';
import { receiptSchema, toReceiptBody } from './receipt-body.ts';
import type { GatewayRoute } from './routes.ts';
import type { GatewayServices } from './services.ts';

/** What a key spent, and the receipts of its requests. */
export const usageRoutes = ({ authenticator, ledger }: GatewayServices): GatewayRoute[] => [
  {
    method: 'GET',
    path: '/v1/usage',
    summary: 'Requests, tokens and spend of this key',
    query: usageParameters,
    answerBody: usageSchema,
    refusals: {
      400: `A parameter is invalid (invalid_request_error), or there are more than ${maxUsageLines} lines (too_many_lines).`,
    },
    async answer({ receipt, header, url }) {
      const { key } = await authenticator.confirm(header);
      const query = parseUsageQuery(new URL(url()).searchParams, new Date());
      const lines = await ledger.usage({ ...query, keyId: key.id }, maxUsageLines);
      if (!lines) throw tooManyLines();
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
