import { z } from 'zod';
import type { ReceiptStore, StoreSessions } from '../../agent/services.ts';
import { type CancelOptions, cancelSession } from '../../agent/sessions/cancel-session.ts';
import type { SessionFeed } from '../../agent/sessions/session-feed.ts';
import type { TaskService } from '../../agent/tasks/task-service.ts';
import { controlAct } from '../../agent/shapes/control-act.ts';
import { workReceipt } from '../../agent/shapes/receipt.ts';
import { session } from '../../agent/shapes/session.ts';
import { StoreError } from '../../store/index.ts';
import { hostError } from '../error-schema.ts';
import { HttpError } from '../../http/error.ts';
import { defineRoute, type Route } from '../../http/route.ts';
import { readIntegerQuery } from './integer-query.ts';

export interface SessionRoutesOptions extends CancelOptions {
  readonly feed: SessionFeed;
  readonly sessions: Pick<StoreSessions, 'revoke'>;
  readonly tasks: CancelOptions['tasks'] & Pick<TaskService, 'stopRevoked'>;
  readonly receipts: Pick<ReceiptStore, 'get'>;
}

const sessionList = z.object({ sessions: z.array(session) }).meta({ id: 'SessionList' });
const cancelRequested = z
  .object({ id: z.string(), cancel: z.literal('requested') })
  .meta({ id: 'CancelRequested' });
const id = { id: 'Id of the session.' };
const errorResponse = (description: string) => ({
  description,
  content: { 'application/json': hostError },
});
const limitRange = { min: 1, max: 10_000, defaultValue: 200 };

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
    responses: {
      200: { description: 'The rows.', content: { 'application/json': sessionList } },
      400: errorResponse('`limit` is out of range or not a number.'),
      500: errorResponse('The journal cannot be read; no partial list is returned.'),
    },
    async handle({ query }) {
      const limit = readIntegerQuery(query, 'limit', limitRange);
      try {
        return Response.json({ sessions: await options.feed.listRows(limit) });
      } catch (error) {
        throw toJournalError(error);
      }
    },
  });
  const getReceipt = defineRoute({
    method: 'GET',
    path: '/agent/v1/sessions/{id}/receipt',
    operationId: 'getReceipt',
    summary: 'Get the signed receipt of an ended session',
    params: id,
    responses: {
      200: { description: 'The receipt.', content: { 'application/json': workReceipt } },
      404: errorResponse('The session has not ended or does not exist.'),
    },
    handle: async ({ params }) => Response.json(await options.receipts.get(params['id'] ?? '')),
  });
  const cancel = defineRoute({
    method: 'POST',
    path: '/agent/v1/sessions/{id}/cancel',
    operationId: 'cancelSession',
    summary: 'Stop a run at its next step boundary',
    params: id,
    responses: {
      202: {
        description: 'The cancellation was requested.',
        content: { 'application/json': cancelRequested },
      },
      404: errorResponse('No live session has this id.'),
      409: errorResponse(
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
      "Requires the session's own capability in `x-svc-session-secret`, or the operator's credential in `x-svc-operator`, which is only accepted from this machine. Past work is kept; future requests are refused, and a running task ends. Revoking again has no effect.",
    params: { id: 'Id of the store session, which begins with `s`.' },
    headers: {
      'x-svc-session-secret': "The session's own capability.",
      'x-svc-operator': "The operator's credential.",
    },
    responses: {
      200: { description: 'The credential was revoked.', content: { 'application/json': controlAct } },
      401: errorResponse("The credential is missing, wrong or another session's."),
      404: errorResponse('No store session has this id.'),
    },
    checksOperatorItself: true,
    async handle({ params, headers, isLocal }) {
      const capability = headers.get('x-svc-session-secret');
      const operatorCredential = headers.get('x-svc-operator');
      const act = await options.sessions.revoke(params['id'] ?? '', {
        ...(capability === null ? {} : { capability }),
        ...(operatorCredential === null ? {} : { operatorCredential }),
        isLocal: isLocal,
      });
      await options.tasks.stopRevoked(params['id'] ?? '');
      return Response.json(act);
    },
  });
  return [list, getReceipt, cancel, revoke];
}

/**
 * Converts errors of the database and its content; other errors are faults of the host and are returned unchanged.
 */
function toJournalError(error: unknown): unknown {
  if (!(error instanceof StoreError || error instanceof SyntaxError)) return error;
  const message = `The journal cannot be read, so nothing is shown rather than a part of it: ${error.message.slice(0, 300)}.`;
  return new HttpError(500, 'journal_unreadable', message);
}
