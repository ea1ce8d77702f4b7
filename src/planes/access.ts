import { verifySecret } from '../signing/secret.ts';
import type { PeerScope } from '../agent/shapes/peer-scope.ts';
import { isLoopback } from '../http/host-guard.ts';
import type { BrowserSessions, SessionLookup } from '../http/browser-sessions.ts';
import { HttpError } from '../http/error.ts';
import { type RequiredScopes, requiredScopes } from './scopes.ts';
import type { AccessControl, Caller, RequestHead, Gate, Route } from '../http/route.ts';

/** Stored credentials, as SHA-256 hashes in hex. */
export interface AccessOptions {
  /**
   * `lan`: any address except loopback. Every request then needs the bearer token, except for the two liveness routes.
   */
  readonly bind: 'loopback' | 'lan';
  /** Undefined: no token exists, and whatever requires it is refused. */
  readonly bearerHash: string | undefined;
  readonly operatorHash: string | undefined;
  /** Finds the peer of a token. Called for every request, so that a revoked token is refused at once. */
  readonly findPeer?: (token: string) => Promise<PeerToken | undefined>;
  /** Sessions of browsers, whose cookie stands for a bearer token. */
  readonly sessions?: BrowserSessions | undefined;
}

/** A peer's token that was not revoked. */
export interface PeerToken {
  readonly name: string;
  /** Null: unrestricted. */
  readonly scope: readonly PeerScope[] | null;
  /** Expiry time (RFC 3339), where the token has expired. */
  readonly expired?: string | undefined;
}

/** Identity and scope of a bearer token. */
type BearerIdentity = Pick<Caller, 'by' | 'scope'>;

/**
 * Public liveness routes, which disclose only that the host is alive. The Host-header guard applies to them too.
 */
const publicPaths = ['/health', '/host/v1/health'];

/** Authenticates and authorizes requests. A request that cannot be verified is refused. */
export class Access implements AccessControl {
  readonly #options: AccessOptions;

  constructor(options: AccessOptions) {
    this.#options = options;
  }

  /**
   * Authenticates a request before it is routed or its body is read. Throws a 401 where the listener requires a bearer
   * token, and where `x-svc-operator` is wrong, because a caller that sends it claims to be the operator.
   * @param isOperatorCheckDeferred the route's handler checks `x-svc-operator` itself
   */
  async authenticate(
    request: RequestHead,
    {
      isOperatorCheckDeferred = false,
      ...lookup
    }: { readonly isOperatorCheckDeferred?: boolean } & SessionLookup = {},
  ): Promise<Caller> {
    const isLocal = isLoopback((request.remoteAddress ?? '').replace(/^::ffff:/i, ''));
    const hasOperatorCredential = this.#isOperator(request.headers);
    if (!hasOperatorCredential && !isOperatorCheckDeferred && request.headers.has('x-svc-operator'))
      throw operatorWrongError();
    const isOperator = isLocal && hasOperatorCredential;
    if (this.#options.bind === 'loopback') return { by: isOperator ? 'operator' : 'local', isLocal };
    const isPublicPath = publicPaths.includes(request.path) && ['GET', 'HEAD'].includes(request.method);
    const bearer = await this.#identifyBearer(request, lookup);
    const isRefused = bearer instanceof HttpError;
    if (isRefused && !isPublicPath) throw bearer;
    if (isOperator) return { by: 'operator', isLocal };
    return isRefused ? { by: 'nobody', isLocal } : { ...bearer, isLocal };
  }

  /** Checks a route's gate before its body is read. Throws a 401. */
  async authorizeGate(
    gate: Gate,
    caller: Caller,
    request: RequestHead,
    lookup: SessionLookup = {},
  ): Promise<Caller> {
    if (gate === 'operator') {
      if (caller.by !== 'operator') throw operatorMissingError();
      return caller;
    }
    const bearer = await this.#identifyBearer(request, lookup);
    if (bearer instanceof HttpError) throw bearer;
    return caller.by === 'operator' ? caller : { ...caller, ...bearer };
  }

  /**
   * Checks the scope of the caller's token after `authenticate` and `authorizeGate`. Throws a 403 where a scoped token
   * lacks the required scope.
   */
  requireScope({ scope }: Caller, required: RequiredScopes): void {
    if (scope === undefined || required === 'none') return;
    if (required === 'all' || !required.some((one) => scope.includes(one)))
      throw insufficientScopeError(scope, required);
  }

  requireRouteScope(caller: Caller, plane: string, route: Route): void {
    this.requireScope(caller, requiredScopes(plane, route));
  }

  #isOperator(headers: Headers): boolean {
    const operatorToken = headers.get('x-svc-operator');
    const { operatorHash } = this.#options;
    return operatorToken !== null && operatorHash !== undefined && verifySecret(operatorHash, operatorToken);
  }

  /** The identity of the bearer token, which a browser's session may stand for, or the error to refuse it with. */
  async #identifyBearer(request: RequestHead, lookup: SessionLookup): Promise<BearerIdentity | HttpError> {
    const { headers } = request;
    const { bind, sessions } = this.#options;
    const tokens = [
      /^Bearer +([\x21-\x7e]+) *$/i.exec(headers.get('authorization') ?? '')?.[1],
      // Anthropic's clients send their key here. On loopback any value is accepted and ignored.
      bind === 'lan' ? (headers.get('x-api-key') ?? undefined) : undefined,
    ].filter((token) => token !== undefined);
    const identity = await this.#identifyTokens(tokens);
    // A client that sends a token is who the token says, or nobody.
    if (!(identity instanceof HttpError) || headers.has('authorization')) return identity;
    const sessionToken = sessions?.tokenOf(request, lookup);
    if (sessionToken === undefined || sessionToken instanceof HttpError) return sessionToken ?? identity;
    return await this.#identifyTokens([sessionToken]);
  }

  async #identifyTokens(tokens: readonly string[]): Promise<BearerIdentity | HttpError> {
    const { bearerHash, findPeer } = this.#options;
    if (tokens.some((token) => bearerHash !== undefined && verifySecret(bearerHash, token)))
      return { by: 'bearer' };
    if (bearerHash === undefined || !findPeer) return bearerMissingError();
    let expiredAt: string | undefined;
    for (const token of tokens) {
      const peer = await findPeer(token).catch(() => {
        throw credentialsUnreadableError();
      });
      if (peer?.expired !== undefined) expiredAt = peer.expired;
      else if (peer) return { by: `peer:${peer.name}`, ...(peer.scope ? { scope: peer.scope } : {}) };
    }
    return expiredAt === undefined ? bearerMissingError() : peerExpiredError(expiredAt);
  }
}

/** Access control of a loopback listener without credentials. */
export const loopbackAccess = new Access({
  bind: 'loopback',
  bearerHash: undefined,
  operatorHash: undefined,
});

const bearerMissingError = () =>
  new HttpError(
    401,
    'unauthorized',
    "This needs the host's bearer token: send 'Authorization: Bearer TOKEN'. The token is in the file bearer.token of the host's data directory, or where --bearer-token-file says.",
    { headers: { 'www-authenticate': 'Bearer' } },
  );

/** As RFC 6750 has it. */
const peerExpiredError = (at: string) =>
  new HttpError(
    401,
    'peer_token_expired',
    `The peer's token expired at ${at}; the operator of this host mints another one.`,
    {
      headers: {
        'www-authenticate': 'Bearer error="invalid_token", error_description="The token expired"',
      },
    },
  );

/** As RFC 6750 has it. */
export function insufficientScopeError(
  scope: readonly string[],
  required: Exclude<RequiredScopes, 'none'>,
): HttpError {
  const has = scope.map((one) => `'${one}'`).join(', ');
  const requirement =
    required === 'all'
      ? 'a token that was minted without a scope'
      : `the scope ${required.map((one) => `'${one}'`).join(' or ')}`;
  const named = required === 'all' ? '' : `, scope="${required.join(' ')}"`;
  return new HttpError(
    403,
    'insufficient_scope',
    `This needs ${requirement}; the peer's token has ${has}. The operator of this host mints another one.`,
    { headers: { 'www-authenticate': `Bearer error="insufficient_scope"${named}` } },
  );
}

const credentialsUnreadableError = () =>
  new HttpError(
    503,
    'credentials_unreadable',
    'The credential cannot be checked, because the database cannot be read; try again later.',
    { headers: { 'retry-after': '5' } },
  );

const operatorWrongError = () =>
  new HttpError(
    401,
    'operator_wrong',
    "The value of x-svc-operator is not the operator's credential, which is in the file operator.token of the host's data directory. Leave the header out where it is not needed.",
  );

const operatorMissingError = () =>
  new HttpError(
    401,
    'operator_required',
    "This needs the operator's credential, from this machine itself: send it in the header x-svc-operator. It is in the file operator.token of the host's data directory.",
  );
