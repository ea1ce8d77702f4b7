import { HttpError } from '../../http/error.ts';
import type { AccessControl, Caller } from '../../http/route.ts';
import { type AdminTokens, adminTokenVariable } from './admin-tokens.ts';

/**
 * Who may use the operator listener: metrics and probes, which have no content and no secret, everybody who reaches it;
 * routes with a gate, operators with a token.
 * @param onWrongToken called for a token that no operator has
 */
export const operatorAccess = (tokens: AdminTokens | undefined, onWrongToken: () => void): AccessControl => ({
  authenticate: () => Promise.resolve({ by: 'anybody', isLocal: false }),
  authorizeGate: (_gate, _caller, { headers }) =>
    new Promise((resolve) => resolve(requireOperator(tokens, headers, onWrongToken))),
  requireRouteScope: () => undefined,
});

function requireOperator(
  tokens: AdminTokens | undefined,
  headers: Headers,
  onWrongToken: () => void,
): Caller {
  if (!tokens)
    throw new HttpError(
      403,
      'admin_disabled',
      `The admin API needs an operator's token: start the gateway with --admin-token-file FILE or ${adminTokenVariable}.`,
    );
  const [, token] = /^Bearer (\S+)$/i.exec(headers.get('authorization') ?? '') ?? [];
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
