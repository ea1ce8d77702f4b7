import { z } from 'zod';
import type { Receipts, StoreSessions } from '../../agent/services.ts';
import { type CancelOptions, cancelSession } from '../../agent/sessions/cancel.ts';
import type { Feed } from '../../agent/sessions/feed.ts';
import { controlAct } from '../../agent/shapes/control-act.ts';
import { workReceipt } from '../../agent/shapes/receipt.ts';
import { session } from '../../agent/shapes/session.ts';
import { StoreError } from '../../store/index.ts';
import { hostError } from '../error-schema.ts';
import { HttpError } from '../../http/error.ts';
import { defineRoute, type Route } from '../../http/route.ts';
import { wholeQuery } from './whole-query.ts';

export interface SessionRoutesOptions extends CancelOptions {
  readonly feed: Feed;
  readonly sessions: Pick<StoreSessions, 'revoke'>;
  readonly receipts: Pick<Receipts, 'get'>;
}

const sessionList = z.object({ sessions: z.array(session) }).meta({ id: 'SessionList' });
const cancelRequested = z
  .object({ id: z.string(), cancel: z.literal('requested') })
  .meta({ id: 'CancelRequested' });
const id = { id: 'Id of the session.' };
const refusal = (description: string) => ({
  description,
  content: { 'application/json': hostError },
});
const limits = { least: 1, most: 10_000, otherwise: 200 };

/** Routes for the session feed and its actions. */
export function sessionsRoutes(options: SessionRoutesOptions): Route[] {
  const list = defineRoute({
    method: 'GET',
    path: '/agent/v1/sessions',
    operationId: 'listSessions',
    summary: 'List running and ended sessions',
    description:
      'Running tasks and runs, newest first; external sessions; the host; then ended tasks and runs, newest first.',
    query: { limit: 'Maximum number of ended sessions, 1 to 10000; default 200.' },
    answers: {
      200: { description: 'The rows.', content: { 'application/json': sessionList } },
      400: refusal('`limit` is out of range or not a number.'),
      500: refusal('The journal cannot be read; no partial list is returned.'),
    },
    async handle({ query }) {
      const limit = wholeQuery(query, 'limit', limits);
      try {
        return Response.json({ sessions: await options.feed.rows(limit) });
      } catch (error) {
        throw asUnreadable(error);
      }
    },
  });
  const getReceipt = defineRoute({
    method: 'GET',
    path: '/agent/v1/sessions/{id}/receipt',
    operationId: 'getReceipt',
    summary: 'Get the signed receipt of an ended session',
    params: id,
    answers: {
      200: { description: 'The receipt.', content: { 'application/json': workReceipt } },
      404: refusal('The session has not ended or does not exist.'),
    },
    handle: async ({ params }) => Response.json(await options.receipts.get(params['id'] ?? '')),
  });
  const cancel = defineRoute({
    method: 'POST',
    path: '/agent/v1/sessions/{id}/cancel',
    operationId: 'cancelSession',
    summary: 'Stop a run at its next step boundary',
    params: id,
    answers: {
      202: {
        description: 'The cancellation was requested.',
        content: { 'application/json': cancelRequested },
      },
      404: refusal('No live session has this id.'),
      409: refusal(
        'The session cannot be cancelled: a task, the host, an external session, or a resumed segment.',
      ),
    },
    handle: async ({ params, by }) =>
      Response.json(await cancelSession(params['id'] ?? '', by, options), { status: 202 }),
  });
  const revoke = defineRoute({
    method: 'POST',
    path: '/agent/v1/sessions/{id}/revoke',
    operationId: 'revokeSession',
    summary: 'Revoke the credential of a task or run',
    description:
      "Requires the session's own capability in `x-svc-session-secret`, or the operator's credential in `x-svc-operator`, which is only accepted from this machine. Past work is kept; future requests are refused. Revoking again has no effect.",
    params: { id: 'Id of the store session, which begins with `s`.' },
    headers: {
      'x-svc-session-secret': "The session's own capability.",
      'x-svc-operator': "The operator's credential.",
    },
    answers: {
      200: { description: 'The credential was revoked.', content: { 'application/json': controlAct } },
      401: refusal("The credential is missing, wrong or another session's."),
      404: refusal('No store session has this id.'),
    },
    judgesOperator: true,
    async handle({ params, headers, local }) {
      const capability = headers.get('x-svc-session-secret');
      const operator = headers.get('x-svc-operator');
      const act = await options.sessions.revoke(params['id'] ?? '', {
        ...(capability === null ? {} : { capability }),
        ...(operator === null ? {} : { operator }),
        isLocal: local,
      });
      return Response.json(act);
    },
  });
  return [list, getReceipt, cancel, revoke];
}

/**
 * Converts errors of the database and its content; other errors are faults of the host and are returned unchanged.
 */
function asUnreadable(error: unknown): unknown {
  if (!(error instanceof StoreError || error instanceof SyntaxError)) return error;
  const message = `The journal cannot be read, so nothing is shown rather than a part of it: ${error.message.slice(0, 300)}.`;
  return new HttpError(500, 'journal_unreadable', message);
}
