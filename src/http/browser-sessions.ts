import { generateSecret, hashSecret } from '../signing/secret.ts';
import { HttpError } from './error.ts';
import { isOriginOf } from './own-origin.ts';
import type { RequestHead } from './route.ts';

export interface BrowserSessionsOptions {
  /** Name of the cookie, without prefix and port. */
  readonly name: string;
  /** Whether the listener serves HTTPS. A proxy that does is recognized by its requests. */
  readonly isTls: boolean;
  /** How long a session lasts without requests, in ms. */
  readonly idleMs?: number;
  /** Current time in ms. */
  readonly now?: () => number;
}

/** A session of a browser that was signed in with a bearer token. */
interface Session {
  /** The token that the cookie stands for. */
  readonly token: string;
  /** The only origin whose pages may use it, such as `http://127.0.0.1:8080`. */
  readonly origin: string;
  /** The `Host` header of that origin. */
  readonly host: string;
  expiresAtMs: number;
}

export interface SessionLookup {
  /**
   * The request is for a file of the pages, which contains no data: then a read that names no page at all is accepted, because a
   * browser names none when a person enters an address that has no HTTPS.
   */
  readonly isPageFile?: boolean | undefined;
  /** False: the request does not count as use of the session. */
  readonly renews?: boolean | undefined;
}

const defaultIdleMs = 12 * 60 * 60 * 1000;
/** Sessions of one token; beyond it, the one that was used least recently ends. */
const maxSessionsOfToken = 64;

/**
 * Sessions of browsers: each stands for a bearer token, so that pages need not keep the token. A session has exactly the rights of
 * its token, and ends when the token does, after 12 hours without requests, when the user signs out, and with the process. The
 * cookie cannot be read by scripts. Only its hash is stored.
 *
 * A browser sends a cookie to all ports of a host name, and with requests of pages on other ports, which are the same site. So
 * the name has the port, the session is bound to the origin of the page that signed in, and requests of other pages are refused.
 */
export class BrowserSessions {
  readonly #options: Required<BrowserSessionsOptions>;
  /** By the hash of the id; the one that was used least recently is first. */
  readonly #sessions = new Map<string, Session>();

  constructor({ idleMs = defaultIdleMs, now = Date.now, ...options }: BrowserSessionsOptions) {
    this.#options = { ...options, idleMs, now };
  }

  /**
   * Starts a session for a token that was verified, and ends the one that the browser had. The id is always a new one.
   * @returns the `Set-Cookie` header
   * @throws HttpError 403 for a page of another origin, 400 without one `Host` header
   */
  start(headers: Headers, token: string): { readonly cookie: string; readonly expiresAt: Date } {
    const host = headers.get('host')?.toLowerCase();
    if (host === undefined || host === '')
      throw new HttpError(
        400,
        'bad_host_header',
        'A session belongs to the name in the Host header; send it.',
      );
    const sentOrigin = headers.get('origin');
    const isForwardedTls = /^https\b/i.test(headers.get('x-forwarded-proto') ?? '');
    const ownOrigin = `${this.#options.isTls || isForwardedTls ? 'https' : 'http'}://${host}`;
    const origin = sentOrigin ?? new URL(ownOrigin).origin;
    if (!isOriginOf(origin, host) || !/^(?:same-origin|none)$/.test(headers.get('sec-fetch-site') ?? 'none'))
      throw foreignPageError();
    this.end(headers);
    const id = generateSecret('session');
    this.#makeRoom(token);
    const expiresAtMs = this.#options.now() + this.#options.idleMs;
    this.#sessions.set(hashSecret(id), { token, origin, host, expiresAtMs });
    const isSecure = isHttps(origin);
    const name = this.#cookieNames(host)[isSecure ? 0 : 1];
    return {
      cookie: `${name}=${id}${attributes}${isSecure ? '; Secure' : ''}`,
      expiresAt: new Date(expiresAtMs),
    };
  }

  /**
   * The token of the session of a request. Undefined: the request has no cookie of a session. An error: it has, but is not from a
   * page of the origin that signed in, or it has sessions of different tokens.
   */
  tokenOf(
    { method, headers }: Pick<RequestHead, 'method' | 'headers'>,
    { isPageFile = false, renews = true }: SessionLookup = {},
  ): string | HttpError | undefined {
    const all = this.#find(headers);
    const [found] = all;
    if (!found) return undefined;
    const [key, session] = found;
    if (all.some(([, other]) => other.token !== session.token)) return severalSessionsError();
    if (!isFromOrigin(session.origin, method, headers, isPageFile)) return foreignPageError();
    if (renews) {
      session.expiresAtMs = this.#options.now() + this.#options.idleMs;
      this.#sessions.delete(key);
      this.#sessions.set(key, session);
    }
    return session.token;
  }

  /** When the session of a request ends without further requests. Undefined: there is none. */
  expiryOf(headers: Headers): Date | undefined {
    const session = this.#find(headers)[0]?.[1];
    return session && new Date(session.expiresAtMs);
  }

  /** Ends the sessions of a request's cookies. @returns `Set-Cookie` headers that remove the cookies */
  end(headers: Headers): string[] {
    for (const [key] of this.#find(headers)) this.#sessions.delete(key);
    const [secureName, name] = this.#cookieNames(headers.get('host') ?? '');
    const removed = `=${attributes}; Max-Age=0`;
    return [`${name}${removed}`, `${secureName}${removed}; Secure`];
  }

  /**
   * All cookies of the name are looked at, because pages of other ports can set cookies, too. They cannot set one with the prefix,
   * so only that one counts over HTTPS.
   */
  #find(headers: Headers): [string, Session][] {
    const host = headers.get('host')?.toLowerCase() ?? '';
    const [secureName, plainName] = this.#cookieNames(host);
    const found: [string, Session][] = [];
    for (const pair of (headers.get('cookie') ?? '').split(';')) {
      const [name = '', id = ''] = pair.trim().split('=', 2);
      if (name !== secureName && name !== plainName) continue;
      const key = hashSecret(id);
      const session = this.#sessions.get(key);
      if (session && session.expiresAtMs <= this.#options.now()) this.#sessions.delete(key);
      else if (session?.host === host && isHttps(session.origin) === (name === secureName))
        found.push([key, session]);
    }
    return found;
  }

  #makeRoom(token: string): void {
    const own = [...this.#sessions].filter(([, session]) => session.token === token);
    for (const [key, { expiresAtMs }] of this.#sessions)
      if (expiresAtMs <= this.#options.now()) this.#sessions.delete(key);
    for (const [key] of own.slice(0, Math.max(0, own.length - maxSessionsOfToken + 1)))
      this.#sessions.delete(key);
  }

  /** The cookie's name over HTTPS, whose prefix makes browsers refuse one set by a page of another host, and over HTTP. */
  #cookieNames(host: string): readonly [secure: string, plain: string] {
    const port = /:(\d+)$/.exec(host)?.[1] ?? 'default';
    const name = `lathe_${this.#options.name}_${port}`;
    return [`__Host-${name}`, name];
  }
}

const isHttps = (origin: string): boolean => origin.startsWith('https:');

const attributes = '; Path=/; HttpOnly; SameSite=Strict';

/**
 * Whether a request comes from a page of an origin, as browsers tell: by `Sec-Fetch-Site` where they trust the connection, by
 * `Origin` for everything but reads, else by `Referer`, which the pages' policy restricts to their own origin.
 */
function isFromOrigin(origin: string, method: string, headers: Headers, isPageFile: boolean): boolean {
  const isRead = method === 'GET' || method === 'HEAD';
  const sentOrigin = headers.get('origin');
  if (sentOrigin !== null && sentOrigin !== origin) return false;
  const site = headers.get('sec-fetch-site');
  // `none`: the user entered the address.
  if (site !== null) return site === 'same-origin' || (site === 'none' && isRead);
  if (sentOrigin !== null) return true;
  const referrer = headers.get('referer');
  if (referrer !== null) return isRead && URL.parse(referrer)?.origin === origin;
  return isRead && isPageFile;
}

const foreignPageError = (): HttpError =>
  new HttpError(
    403,
    'foreign_page',
    'A page of another origin cannot use the session of this browser, nor start one. Programs send the token: Authorization: Bearer TOKEN.',
  );

/** Somebody who may sign in could set the cookie of their own session, so that another user works in it unawares. */
const severalSessionsError = (): HttpError =>
  new HttpError(
    401,
    'several_sessions',
    'This browser has cookies of several sessions, which stand for different tokens. Sign in again; this ends them.',
    { headers: { 'www-authenticate': 'Bearer' } },
  );
