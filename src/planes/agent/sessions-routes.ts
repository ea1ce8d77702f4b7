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
const id = { id: 'Of the session.' };
const refusal = (description: string) => ({
  description,
  content: { 'application/json': hostError },
});
const limits = { least: 1, most: 10_000, otherwise: 200 };

/** The feed, and what can be done with its rows. */
export function sessionsRoutes(options: SessionRoutesOptions): Route[] {
  const list = defineRoute({
    method: 'GET',
    path: '/agent/v1/sessions',
    operationId: 'listSessions',
    summary: 'Everything at work, and what has ended',
    description:
      'Tasks and runs at work, newest first; external sessions; the host; then tasks and runs that have ended, newest first.',
    query: { limit: 'How many that have ended, 1 to 10000; default 200.' },
    answers: {
      200: { description: 'The rows.', content: { 'application/json': sessionList } },
      400: refusal('`limit` is no such number.'),
      500: refusal('The journal cannot be read: no rows rather than some of them.'),
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
    summary: 'What an ended session left behind, signed',
    params: id,
    answers: {
      200: { description: 'The receipt.', content: { 'application/json': workReceipt } },
      404: refusal('It has not ended, or there was none.'),
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
      202: { description: 'It will.', content: { 'application/json': cancelRequested } },
      404: refusal('No such session is live.'),
      409: refusal('It cannot be cancelled: a task, the host, work from elsewhere, a resumed segment.'),
    },
    handle: async ({ params, by }) =>
      Response.json(await cancelSession(params['id'] ?? '', by, options), { status: 202 }),
  });
  const revoke = defineRoute({
    method: 'POST',
    path: '/agent/v1/sessions/{id}/revoke',
    operationId: 'revokeSession',
    summary: 'Take the credential of a task or run away',
    description:
      "With the session's own capability in `x-svc-session-secret`, or with the operator's credential in `x-svc-operator`, which counts from this machine only. What was done stays; what comes is refused. Once more changes nothing.",
    params: { id: 'Of the store session: `s` and so on.' },
    headers: {
      'x-svc-session-secret': 'Its own capability.',
      'x-svc-operator': "The operator's credential.",
    },
    answers: {
      200: { description: 'It is revoked.', content: { 'application/json': controlAct } },
      401: refusal("The credential is missing, wrong or another session's."),
      404: refusal('There is no such store session.'),
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

/** Of the database, and of what is written in it; anything else is our own fault, and told and logged as such. */
function asUnreadable(error: unknown): unknown {
  if (!(error instanceof StoreError || error instanceof SyntaxError)) return error;
  const message = `The journal cannot be read, so nothing is shown rather than a part of it: ${error.message.slice(0, 300)}.`;
  return new HttpError(500, 'journal_unreadable', message);
}
