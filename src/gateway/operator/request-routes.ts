import type { Violation } from '../../http/error.ts';
import { defineRoute, type Route } from '../../http/route.ts';
import { invalidBodyError } from '../../http/violations.ts';
import type { Ledger, RequestQuery } from '../ledger/types.ts';
import { adminPrefix, answers, refusal } from './admin-answers.ts';
import { listOf } from './admin-schemas.ts';
import {
  listedRequestSchema,
  requestRecordSchema,
  toListedRequestBody,
  toRequestRecordBody,
} from './request-bodies.ts';

const maxRequests = 1000;

/** Requests of all keys, and what became of one. */
export const requestRoutes = (ledger: Pick<Ledger, 'account' | 'requestRecord' | 'requests'>): Route[] => [
  defineRoute({
    method: 'GET',
    path: `${adminPrefix}/requests`,
    operationId: 'listRequests',
    summary: 'Requests that ended, the newest first',
    query: {
      account: 'Id or name of an account; default: all.',
      key: 'Id of a key.',
      failed: '`true`: only those that failed, were cut off, refused, or whose gateway died.',
      since: 'Only those that ended then or later: RFC 3339.',
      before: 'Id of a request: only those before it, for the next page.',
      limit: `How many, 1 to ${maxRequests}. Default 50.`,
    },
    responses: answers(listOf(listedRequestSchema, 'RequestList'), {
      404: refusal('No such account, or no request `before`.'),
    }),
    async handle({ query }) {
      const { account, ...rest } = readQuery(query);
      const accountId = account === undefined ? undefined : (await ledger.account(account)).id;
      return Response.json({
        data: (await ledger.requests({ ...rest, accountId })).map(toListedRequestBody),
      });
    },
  }),
  defineRoute({
    method: 'GET',
    path: `${adminPrefix}/requests/{request}`,
    operationId: 'getRequest',
    summary: 'One request of any key: its hold, its receipt, and what it moved between accounts',
    params: { request: 'The x-svc-request-id of its answer.' },
    responses: answers(requestRecordSchema, { 404: refusal('No such request, or its day is archived.') }),
    handle: async ({ params }) =>
      Response.json(toRequestRecordBody(await ledger.requestRecord(params['request'] ?? ''))),
  }),
];

/** @throws HttpError with all violations */
function readQuery(query: URLSearchParams): RequestQuery & { readonly account: string | undefined } {
  const violations: Violation[] = [];
  const expect = (path: string, expected: string, text: string) =>
    violations.push({ path, message: `expected ${expected}, got '${text.slice(0, 100)}'` });
  const failed = query.get('failed') ?? 'false';
  if (failed !== 'true' && failed !== 'false') expect('failed', 'true or false', failed);
  const since = query.get('since');
  const sinceMs = since === null ? undefined : Date.parse(since);
  if (since !== null && (!/^\d{4}-\d\d-\d\d/.test(since) || Number.isNaN(sinceMs)))
    expect('since', 'a time in RFC 3339, as 2026-01-31T00:00:00Z', since);
  const limitText = query.get('limit') ?? '50';
  const limit = /^\d{1,4}$/.test(limitText) ? Number(limitText) : 0;
  if (limit < 1 || limit > maxRequests) expect('limit', `a whole number from 1 to ${maxRequests}`, limitText);
  if (violations.length > 0) throw invalidBodyError(violations);
  return {
    account: query.get('account') ?? undefined,
    keyId: query.get('key') ?? undefined,
    hasFailed: failed === 'true',
    since: sinceMs === undefined ? undefined : new Date(sinceMs).toISOString(),
    before: query.get('before') ?? undefined,
    limit,
  };
}
