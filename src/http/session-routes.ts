import { z } from 'zod';
import type { BrowserSessions } from './browser-sessions.ts';
import { HttpError } from './error.ts';
import { defineRoute, type Route } from './route.ts';

const sessionAnswer = z
  .object({
    signed_in: z.boolean().describe('Whether the browser has a session.'),
    by: z.string().describe('Who the session acts for, such as `bearer` or `peer:NAME`.').nullable(),
    scope: z
      .array(z.string())
      .nullable()
      .describe('Scopes of its token; null: no restriction, or no session.'),
    expires_at: z.iso.datetime().nullable().describe('When the session ends without further requests.'),
  })
  .meta({ id: 'BrowserSession' });
type SessionAnswer = z.infer<typeof sessionAnswer>;

const signedOut: SessionAnswer = { signed_in: false, by: null, scope: null, expires_at: null };

/** Routes by which a page signs a browser in and out. @param path such as `/host/v1/session` */
export function sessionRoutes(path: string, sessions: BrowserSessions): Route[] {
  const response = (description: string) => ({
    description,
    content: { 'application/json': sessionAnswer },
  });
  const create = defineRoute({
    method: 'POST',
    path,
    operationId: 'createSession',
    summary: 'Sign a browser in',
    description:
      'Exchanges the bearer token for a cookie with the same rights, for pages of the same origin only. The session ends 12 hours after its last request, when its token ends, and when the process does.',
    gate: 'bearer',
    responses: { 200: response('The session; `Set-Cookie` has its cookie.') },
    handle({ headers, by, scope }) {
      const token = /^Bearer +([\x21-\x7e]+) *$/i.exec(headers.get('authorization') ?? '')?.[1];
      if (token === undefined)
        throw new HttpError(401, 'unauthorized', "Send the token: 'Authorization: Bearer TOKEN'.", {
          headers: { 'www-authenticate': 'Bearer' },
        });
      // Where it may name the caller too, the other token could be any text.
      if (headers.has('x-api-key'))
        throw new HttpError(
          400,
          'several_tokens',
          'A session stands for one token: send it in Authorization, without x-api-key.',
        );
      const { cookie, expiresAt } = sessions.start(headers, token);
      const answer: SessionAnswer = {
        signed_in: true,
        by,
        scope: scope ? [...scope] : null,
        expires_at: expiresAt.toISOString(),
      };
      return Response.json(answer, { headers: { 'set-cookie': cookie, 'cache-control': 'no-store' } });
    },
  });
  const read = defineRoute({
    method: 'GET',
    path,
    operationId: 'getSession',
    summary: 'Get the session of this browser',
    responses: { 200: response('The session, or that there is none.') },
    async handle({ headers, authorize }) {
      const expiresAt = sessions.expiryOf(headers);
      const caller = expiresAt && (await authorize('bearer').catch(() => undefined));
      const answer: SessionAnswer = caller
        ? {
            signed_in: true,
            by: caller.by,
            scope: caller.scope ? [...caller.scope] : null,
            expires_at: expiresAt.toISOString(),
          }
        : signedOut;
      return Response.json(answer, { headers: { 'cache-control': 'no-store' } });
    },
  });
  const remove = defineRoute({
    method: 'DELETE',
    path,
    operationId: 'deleteSession',
    summary: 'Sign a browser out',
    description: 'Its cookie is worthless from then on, also a copy of it.',
    gate: 'bearer',
    responses: { 200: response('There is no session any more.') },
    handle({ headers }) {
      const answer = Response.json(signedOut, { headers: { 'cache-control': 'no-store' } });
      for (const cookie of sessions.end(headers)) answer.headers.append('set-cookie', cookie);
      return answer;
    },
  });
  return [create, read, remove];
}
