import { HttpError } from '../../http/error.ts';
import type { AccessControl } from '../../http/route.ts';
import { type AdminTokens, adminTokenVariable } from './admin-tokens.ts';

export const adminPrefix = '/admin/v1';

/**
 * Who may use the operator listener: metrics and probes, which have no content and no secret, everybody who reaches it; the
 * admin API, operators with a token.
 */
export const operatorAccess = (tokens: AdminTokens | undefined): AccessControl => ({
  // biome-ignore lint/suspicious/useAwait: refuses by rejecting.
  async authenticate({ path, headers }) {
    if (path !== adminPrefix && !path.startsWith(`${adminPrefix}/`)) return { by: 'anybody', isLocal: false };
    if (!tokens)
      throw new HttpError(
        403,
        'admin_disabled',
        `The admin API needs an operator's token: start the gateway with --admin-token-file FILE or ${adminTokenVariable}.`,
      );
    const [, token] = /^Bearer (\S+)$/i.exec(headers.get('authorization') ?? '') ?? [];
    const name = token === undefined ? undefined : tokens.nameOf(token);
    if (name === undefined)
      throw new HttpError(
        401,
        'unauthorized',
        token === undefined
          ? "The admin API needs an operator's token: Authorization: Bearer TOKEN."
          : "The token is no operator's.",
        { headers: { 'www-authenticate': 'Bearer' } },
      );
    return { by: `admin:${name}`, isLocal: false };
  },
  authorizeGate: (_, caller) => Promise.resolve(caller),
  requireRouteScope: () => undefined,
});
