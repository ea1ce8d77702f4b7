import { secretFits } from '../signing/secret.ts';
import type { PeerScope } from '../agent/shapes/peer-scope.ts';
import { isLoopback } from '../http/host-guard.ts';
import { HttpError } from '../http/error.ts';
import { type Needed, neededScopes } from './scopes.ts';
import type { AccessControl, Caller, EnteringRequest, Gate, Route } from '../http/route.ts';

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
type Bearer = Pick<Caller, 'by' | 'scope'>;

/**
 * Public liveness routes, which disclose only that the host is alive. The Host-header guard applies to them too.
 */
const doors = ['/health', '/host/v1/health'];

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
  async enter(asked: EnteringRequest, { isOperatorJudgedLater = false } = {}): Promise<Caller> {
    const local = isLoopback((asked.remoteAddress ?? '').replace(/^::ffff:/i, ''));
    const fits = this.#isOperator(asked.headers);
    if (!fits && !isOperatorJudgedLater && asked.headers.has('x-svc-operator')) throw operatorWrong();
    const operator = local && fits;
    if (this.#options.bind === 'loopback') return { by: operator ? 'operator' : 'local', local };
    const door = doors.includes(asked.path) && ['GET', 'HEAD'].includes(asked.method);
    const bearer = await this.#bearerOf(asked.headers);
    const isRefused = bearer instanceof HttpError;
    if (isRefused && !door) throw bearer;
    if (operator) return { by: 'operator', local };
    return isRefused ? { by: 'nobody', local } : { ...bearer, local };
  }

  /** Checks a route's gate before its body is read. Throws a 401. */
  async pass(gate: Gate, caller: Caller, headers: Headers): Promise<Caller> {
    if (gate === 'operator') {
      if (caller.by !== 'operator') throw operatorMissing();
      return caller;
    }
    const bearer = await this.#bearerOf(headers);
    if (bearer instanceof HttpError) throw bearer;
    return caller.by === 'operator' ? caller : { ...caller, ...bearer };
  }

  /**
   * Checks the scope of the caller's token after `authenticate` and `authorizeGate`. Throws a 403 where a scoped token
   * lacks the required scope.
   */
  permit({ scope }: Caller, needed: Needed): void {
    if (scope === undefined || needed === 'none') return;
    if (needed === 'all' || !needed.some((one) => scope.includes(one))) throw outOfScope(scope, needed);
  }

  permitRoute(caller: Caller, plane: string, route: Route): void {
    this.permit(caller, neededScopes(plane, route));
  }

  #isOperator(headers: Headers): boolean {
    const given = headers.get('x-svc-operator');
    const { operatorHash } = this.#options;
    return given !== null && operatorHash !== undefined && secretFits(operatorHash, given);
  }

  /** The identity of the bearer token, or the error to refuse it with. */
  async #bearerOf(headers: Headers): Promise<Bearer | HttpError> {
    const { bind, bearerHash, findPeer } = this.#options;
    const given = [
      /^Bearer +([\x21-\x7e]+) *$/i.exec(headers.get('authorization') ?? '')?.[1],
      // Anthropic's clients send their key here. On loopback any value is accepted and ignored.
      bind === 'lan' ? (headers.get('x-api-key') ?? undefined) : undefined,
    ].filter((token) => token !== undefined);
    if (given.some((token) => bearerHash !== undefined && secretFits(bearerHash, token)))
      return { by: 'bearer' };
    if (bearerHash === undefined || !findPeer) return bearerMissing();
    let ended: string | undefined;
    for (const token of given) {
      const peer = await findPeer(token).catch(() => {
        throw credentialsUnreadable();
      });
      if (peer?.expired !== undefined) ended = peer.expired;
      else if (peer) return { by: `peer:${peer.name}`, ...(peer.scope ? { scope: peer.scope } : {}) };
    }
    return ended === undefined ? bearerMissing() : peerExpired(ended);
  }
}

/** Access control of a loopback listener without credentials. */
export const openAccess = new Access({ bind: 'loopback', bearerHash: undefined, operatorHash: undefined });

const bearerMissing = () =>
  new HttpError(
    401,
    'unauthorized',
    "This needs the host's bearer token: send 'Authorization: Bearer TOKEN'. The token is in the file bearer.token of the host's data directory, or where --bearer-token-file says.",
    { headers: { 'www-authenticate': 'Bearer' } },
  );

/** As RFC 6750 has it. */
const peerExpired = (at: string) =>
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
function outOfScope(scope: readonly string[], needed: Exclude<Needed, 'none'>): HttpError {
  const has = scope.map((one) => `'${one}'`).join(', ');
  const wants =
    needed === 'all'
      ? 'a token that was minted without a scope'
      : `the scope ${needed.map((one) => `'${one}'`).join(' or ')}`;
  const named = needed === 'all' ? '' : `, scope="${needed.join(' ')}"`;
  return new HttpError(
    403,
    'insufficient_scope',
    `This needs ${wants}; the peer's token has ${has}. The operator of this host mints another one.`,
    { headers: { 'www-authenticate': `Bearer error="insufficient_scope"${named}` } },
  );
}

const credentialsUnreadable = () =>
  new HttpError(
    503,
    'credentials_unreadable',
    'The credential cannot be checked, because the database cannot be read; try again later.',
    { headers: { 'retry-after': '5' } },
  );

const operatorWrong = () =>
  new HttpError(
    401,
    'operator_wrong',
    "The value of x-svc-operator is not the operator's credential, which is in the file operator.token of the host's data directory. Leave the header out where it is not needed.",
  );

const operatorMissing = () =>
  new HttpError(
    401,
    'operator_required',
    "This needs the operator's credential, from this machine itself: send it in the header x-svc-operator. It is in the file operator.token of the host's data directory.",
  );
