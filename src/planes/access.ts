import { secretFits } from '../signing/secret.ts';
import type { PeerScope } from '../agent/shapes/peer-scope.ts';
import { isLoopback } from '../http/host-guard.ts';
import { HttpError } from '../http/error.ts';
import { type Needed, neededScopes } from './scopes.ts';
import type { AccessControl, Caller, EnteringRequest, Gate, Route } from '../http/route.ts';

/** What is kept of the credentials: SHA-256 in hex. */
export interface AccessOptions {
  /** `lan`: anything but loopback. Every request then brings the bearer, but for the two doors. */
  readonly bind: 'loopback' | 'lan';
  /** Undefined: there is none, and whatever needs it is refused. */
  readonly bearerHash: string | undefined;
  readonly operatorHash: string | undefined;
  /** The peer whose token this is; asked anew each time, so that a revoked one is refused at once. */
  readonly findPeer?: (token: string) => Promise<PeerToken | undefined>;
}

/** A token of a peer that was not revoked. */
export interface PeerToken {
  readonly name: string;
  /** Null: everything that a peer may do. */
  readonly scope: readonly PeerScope[] | null;
  /** When it ended, where it has: RFC 3339. */
  readonly expired?: string | undefined;
}

/** Who the bearer token says that it is. */
type Bearer = Pick<Caller, 'by' | 'scope'>;

/** They tell that the host is alive and nothing else; the guard of the Host header stands before them too. */
const doors = ['/health', '/host/v1/health'];

/** Who may come in. What is not known for certain is refused. */
export class Access implements AccessControl {
  readonly #options: AccessOptions;

  constructor(options: AccessOptions) {
    this.#options = options;
  }

  /**
   * Before anything is read or routed. Refuses with 401 where the listener asks for a bearer, and where `x-svc-operator` is
   * wrong: whoever sends it means to be the operator.
   * @param isOperatorJudgedLater the route says itself what a wrong one is
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

  /** Before the body of a gated route is read. Refuses with 401. */
  async pass(gate: Gate, caller: Caller, headers: Headers): Promise<Caller> {
    if (gate === 'operator') {
      if (caller.by !== 'operator') throw operatorMissing();
      return caller;
    }
    const bearer = await this.#bearerOf(headers);
    if (bearer instanceof HttpError) throw bearer;
    return caller.by === 'operator' ? caller : { ...caller, ...bearer };
  }

  /** After `enter` and `pass`. Refuses with 403 where a peer's token has a scope, and not what is needed. */
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

  /** Who it is, or the refusal of whom it is not. */
  async #bearerOf(headers: Headers): Promise<Bearer | HttpError> {
    const { bind, bearerHash, findPeer } = this.#options;
    const given = [
      /^Bearer +([\x21-\x7e]+) *$/i.exec(headers.get('authorization') ?? '')?.[1],
      // Where clients of Anthropic put their key. On loopback it may be any, and counts for nothing.
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

/** Of a listener on loopback for which no credentials were made. */
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
    'The credential cannot be checked, because the database cannot be read; come back later.',
    { headers: { 'retry-after': '5' } },
  );

const operatorWrong = () =>
  new HttpError(
    401,
    'operator_wrong',
    "What x-svc-operator holds is not the operator's credential, which is in the file operator.token of the host's data directory. Leave the header out where it is not needed.",
  );

const operatorMissing = () =>
  new HttpError(
    401,
    'operator_required',
    "This needs the operator's credential, from this machine itself: send it in the header x-svc-operator. It is in the file operator.token of the host's data directory.",
  );
