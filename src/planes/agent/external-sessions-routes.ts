import { z } from 'zod';
import type { ExternalSessions } from '../../agent/sessions/external-sessions.ts';
import { externalEnd, externalHeartbeat, externalRegistration } from '../../agent/shapes/external-session.ts';
import { hostError } from '../error-schema.ts';
import { HttpError } from '../../http/error.ts';
import { defineRoute, type Route } from '../../http/route.ts';

const registered = z
  .object({
    id: z.string(),
    secret: z.string().describe('Shown this once.'),
    heartbeat_secs: z.int(),
  })
  .meta({ id: 'ExternalSessionRegistered' });
const renewed = z
  .object({ id: z.string(), deadline_at: z.iso.datetime().describe('When it counts as stale.') })
  .meta({ id: 'ExternalSessionRenewed' });
const ended = z.object({ id: z.string(), ended: z.literal(true) }).meta({ id: 'ExternalSessionEnded' });

const refusal = (description: string) => ({
  description,
  content: { 'application/json': hostError },
});
const secretRefusals = {
  401: refusal('The header x-svc-session-secret is missing or wrong.'),
  404: refusal('No such session is open.'),
};
const secretHeader = 'x-svc-session-secret';
const params = { id: 'Of the external session: `x` and so on.' };

/**
 * The type is asked for also where there is no body: a page of another origin cannot send it without asking first,
 * and is never answered that it may.
 */
function requireJson(headers: Headers): void {
  const type = headers.get('content-type');
  if (/^application\/json\s*(?:;|$)/i.test(type ?? '')) return;
  const got = type === null ? 'none' : `'${type.slice(0, 80)}'`;
  const message = `This needs 'Content-Type: application/json' (got ${got}).`;
  throw new HttpError(415, 'unsupported_media_type', message);
}

/** Work that others do and make known here. */
export function externalSessionsRoutes(external: ExternalSessions): Route[] {
  const register = defineRoute({
    method: 'POST',
    path: '/agent/v1/sessions',
    operationId: 'registerSession',
    summary: 'Make work known that is done elsewhere',
    description:
      'It is shown in the feed for as long as it sends heartbeats. It grants nothing. The secret in the answer is for the heartbeats and the end, and cannot be read again; registering again with the same idempotency_key gives the session a new one.',
    body: externalRegistration,
    before: ({ headers }) => requireJson(headers),
    answers: {
      201: { description: 'It is known.', content: { 'application/json': registered } },
      409: refusal('The idempotency_key was used for another session, or its session has ended.'),
      429: refusal('As many are open as there may be.'),
    },
    async handle({ body, by }) {
      const made = await external.register(body, by);
      return Response.json(made, { status: 201, headers: { 'cache-control': 'no-store' } });
    },
  });
  const heartbeat = defineRoute({
    method: 'POST',
    path: '/agent/v1/sessions/{id}/heartbeat',
    operationId: 'beatSession',
    summary: 'Say that it is still at work',
    params,
    headers: { [secretHeader]: 'What registering it gave.' },
    body: externalHeartbeat,
    bodyOptional: true,
    async before({ params: { id = '' }, headers }) {
      requireJson(headers);
      await external.authorize(id, headers.get(secretHeader), 'conflict');
    },
    answers: {
      200: { description: 'Its deadline is renewed.', content: { 'application/json': renewed } },
      ...secretRefusals,
      409: refusal('It is no external session.'),
    },
    handle: async ({ params: { id = '' }, body }) => Response.json(await external.heartbeat(id, body)),
  });
  const end = defineRoute({
    method: 'POST',
    path: '/agent/v1/sessions/{id}/end',
    operationId: 'endSession',
    summary: 'Say that it is over, and how it went',
    params,
    headers: { [secretHeader]: 'What registering it gave.' },
    body: externalEnd,
    async before({ params: { id = '' }, headers }) {
      requireJson(headers);
      await external.authorize(id, headers.get(secretHeader), 'not_found');
    },
    answers: {
      200: { description: 'It has its receipt.', content: { 'application/json': ended } },
      ...secretRefusals,
    },
    handle: async ({ params: { id = '' }, body }) => Response.json(await external.end(id, body)),
  });
  return [register, heartbeat, end];
}
