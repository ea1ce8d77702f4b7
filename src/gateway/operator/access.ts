import { HttpError } from '../../http/error.ts';
import type { BrowserSessions, SessionLookup } from '../../http/browser-sessions.ts';
import type { AccessControl, Caller, RequestHead } from '../../http/route.ts';
import { type AdminTokens, adminTokenVariable } from './admin-tokens.ts';

interface OperatorAccessOptions {
  /** Undefined: nobody is an operator. */
  readonly tokens: AdminTokens | undefined;
  /** Sessions of browsers, whose cookie stands for an operator's token. */
  readonly sessions: BrowserSessions;
  /** Called for a token that no operator has. */
  readonly onWrongToken: () => void;
}

/**
 * Who may use the operator listener: metrics and probes, which have no content and no secret, everybody who reaches it;
 * routes with a gate, operators with a token.
 */
export const operatorAccess = (options: OperatorAccessOptions): AccessControl => ({
  authenticate: () => Promise.resolve({ by: 'anybody', isLocal: false }),
  authorizeGate: (_gate, _caller, request, lookup) =>
    new Promise((resolve) => resolve(requireOperator(options, request, lookup))),
  requireRouteScope: () => undefined,
});

function requireOperator(
  { tokens, sessions, onWrongToken }: OperatorAccessOptions,
  request: RequestHead,
  lookup: SessionLookup | undefined,
): Caller {
  if (!tokens)
    throw new HttpError(
      403,
      'admin_disabled',
      `The admin API needs an operator's token: start the gateway with --admin-token-file FILE or ${adminTokenVariable}.`,
    );
  const authorization = request.headers.get('authorization');
  // A client that sends a token is who the token says, or nobody.
  const ofSession = authorization === null ? sessions.tokenOf(request, lookup) : undefined;
  if (ofSession instanceof HttpError) throw ofSession;
  const token = ofSession ?? /^Bearer (\S+)$/i.exec(authorization ?? '')?.[1];
  const name = token === undefined ? undefined : tokens.nameOf(token);
  if (name !== undefined) return { by: `admin:${name}`, isLocal: false };
  if (token !== undefined) onWrongToken();
  throw new HttpError(
    401,
    'unauthorized',
    token === undefined
      ? "The admin API needs an operator's token: Authorization: Bearer TOKEN."
      : 'The token is not that of an operator.',
    { headers: { 'www-authenticate': 'Bearer' } },
  );
}
