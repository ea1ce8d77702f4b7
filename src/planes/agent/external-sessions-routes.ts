import { z } from 'zod';
import type { ExternalSessions } from '../../agent/sessions/external-sessions.ts';
import { externalEnd, externalHeartbeat, externalRegistration } from '../../agent/shapes/external-session.ts';
import { hostError } from '../error-schema.ts';
import { HttpError } from '../../http/error.ts';
import { defineRoute, type Route } from '../../http/route.ts';

const registered = z
  .object({
    id: z.string(),
    secret: z.string().describe('Shown only once.'),
    heartbeat_secs: z.int(),
  })
  .meta({ id: 'ExternalSessionRegistered' });
const renewed = z
  .object({ id: z.string(), deadline_at: z.iso.datetime().describe('When the session becomes stale.') })
  .meta({ id: 'ExternalSessionRenewed' });
const ended = z.object({ id: z.string(), ended: z.literal(true) }).meta({ id: 'ExternalSessionEnded' });

const errorResponse = (description: string) => ({
  description,
  content: { 'application/json': hostError },
});
const secretErrorResponses = {
  401: errorResponse('The header x-svc-session-secret is missing or wrong.'),
  404: errorResponse('No open session has this id.'),
};
const secretHeader = 'x-svc-session-secret';
const params = { id: 'Id of the external session, which begins with `x`.' };

/**
 * The content type is required even without a body: a page of another origin cannot send it without a preflight
 * request, which is never allowed.
 */
function requireJsonType(headers: Headers): void {
  const type = headers.get('content-type');
  if (/^application\/json\s*(?:;|$)/i.test(type ?? '')) return;
  const got = type === null ? 'none' : `'${type.slice(0, 80)}'`;
  const message = `This needs 'Content-Type: application/json' (got ${got}).`;
  throw new HttpError(415, 'unsupported_media_type', message);
}

/** Routes for sessions of work outside of this host. */
export function externalSessionsRoutes(sessions: ExternalSessions): Route[] {
  const register = defineRoute({
    method: 'POST',
    path: '/agent/v1/sessions',
    operationId: 'registerSession',
    summary: 'Register a session of work outside of this host',
    description:
      'The session is shown in the feed while it sends heartbeats. Registration grants no access. The secret in the response authorizes heartbeats and the end, and cannot be read again; registering again with the same idempotency_key issues a new one.',
    body: externalRegistration,
    beforeBody: ({ headers }) => requireJsonType(headers),
    responses: {
      201: { description: 'The session was registered.', content: { 'application/json': registered } },
      409: errorResponse('The idempotency_key was used for another session, or its session has ended.'),
      429: errorResponse('The limit of open sessions is reached.'),
    },
    async handle({ body, by }) {
      const registration = await sessions.register(body, by);
      return Response.json(registration, { status: 201, headers: { 'cache-control': 'no-store' } });
    },
  });
  const heartbeat = defineRoute({
    method: 'POST',
    path: '/agent/v1/sessions/{id}/heartbeat',
    operationId: 'beatSession',
    summary: 'Send a heartbeat',
    params,
    headers: { [secretHeader]: 'Secret from the registration.' },
    body: externalHeartbeat,
    isBodyOptional: true,
    async beforeBody({ params: { id = '' }, headers }) {
      requireJsonType(headers);
      await sessions.authorize(id, headers.get(secretHeader), 'conflict');
    },
    responses: {
      200: { description: 'The deadline was renewed.', content: { 'application/json': renewed } },
      ...secretErrorResponses,
      409: errorResponse('The session is not external.'),
    },
    handle: async ({ params: { id = '' }, body }) => Response.json(await sessions.heartbeat(id, body)),
  });
  const end = defineRoute({
    method: 'POST',
    path: '/agent/v1/sessions/{id}/end',
    operationId: 'endSession',
    summary: 'End the session with its outcome',
    params,
    headers: { [secretHeader]: 'Secret from the registration.' },
    body: externalEnd,
    async beforeBody({ params: { id = '' }, headers }) {
      requireJsonType(headers);
      await sessions.authorize(id, headers.get(secretHeader), 'not_found');
    },
    responses: {
      200: { description: 'The session ended and has a receipt.', content: { 'application/json': ended } },
      ...secretErrorResponses,
    },
    handle: async ({ params: { id = '' }, body }) => Response.json(await sessions.end(id, body)),
  });
  return [register, heartbeat, end];
}
