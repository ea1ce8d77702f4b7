import type { z } from 'zod';
import type { CompletionAttributes, TraceSpan } from '../tracing/index.ts';
import type { Envelope, HttpError } from './error.ts';
import type { AbsentRoute, Endpoint } from './router.ts';
import type { SessionLookup } from './browser-sessions.ts';
import type { SocketRoute } from './socket-route.ts';

/** Credential that a route requires in addition to what its listener requires. */
export type Gate = 'bearer' | 'operator';

/** The authenticated caller. */
export interface Caller {
  /** Identifies the caller; same values as column `acts.by` in src/store/schema.ts. */
  readonly by: string;
  /** Whether the caller is on this machine, judged by the remote address of the socket. */
  readonly isLocal: boolean;
  /** Scopes of the peer token that was sent; undefined means unrestricted. */
  readonly scope?: readonly string[];
}

/** The part of a request that is available before the body is read. */
export interface RequestHead {
  readonly method: string;
  readonly path: string;
  readonly headers: Headers;
  /** Remote address of the socket. */
  readonly remoteAddress: string | undefined;
}

/** Authenticates and authorizes requests. Every method refuses by throwing an `HttpError`. */
export interface AccessControl {
  /**
   * Authenticates the request before it is routed or its body is read.
   * @param options.isOperatorCheckDeferred the route's handler checks the operator credential itself
   */
  readonly authenticate: (
    request: RequestHead,
    options?: { readonly isOperatorCheckDeferred?: boolean } & SessionLookup,
  ) => Promise<Caller>;
  /** Checks the gate of a route before its body is read. */
  readonly authorizeGate: (
    gate: Gate,
    caller: Caller,
    request: RequestHead,
    lookup?: SessionLookup,
  ) => Promise<Caller>;
  /** Checks the scopes of the caller's token. Called after `authenticate` and `authorizeGate`. */
  readonly requireRouteScope: (caller: Caller, plane: string, route: Route) => void;
}

/**
 * Input of a route handler: the validated body, the path and query parameters, and a signal that aborts when the client
 * disconnects or the host stops.
 */
interface PlaneRequest<Body = unknown, Span = TraceSpan<'completion'> | undefined> extends Caller {
  readonly body: Body;
  /**
   * For routes with `completion`: the span of the completion. It begins when the request arrives and ends with the
   * response.
   */
  readonly span: Span;
  /** For routes with `rawBody`, else empty. Iteration throws an `HttpError` when the body exceeds its limit. */
  readonly bytes: AsyncIterable<Uint8Array>;
  /** For routes with `textBody`, else empty. */
  readonly text: string;
  readonly params: Readonly<Record<string, string>>;
  readonly query: URLSearchParams;
  readonly headers: Headers;
  readonly signal: AbortSignal;
  /** Resolves when the last byte of the response was sent, or when the client stopped reading. */
  readonly finished: Promise<void>;
  /** Value of the response header `x-request-id`. */
  readonly requestId: string;
  /**
   * Checks the caller again, which may have changed since a long response began: its token may have been revoked. It does not count
   * as use of a browser's session.
   * @param gate also requires this credential
   * @throws HttpError
   */
  readonly authorize: (gate?: Gate) => Promise<Caller>;
  /**
   * Converts any error to an `HttpError`. An error of another class is logged as a fault of the host and becomes a 500.
   */
  readonly asHttpError: (error: unknown) => HttpError;
}

/** Attributes of the span of a completion route. */
export interface CompletionSpec extends Pick<CompletionAttributes, 'wire' | 'operation'> {
  /** The default when the body has no `stream` member. */
  readonly streams?: true;
}

/** One response in the OpenAPI document. */
export interface ResponseSpec {
  readonly description: string;
  /** Maps the content type to the schema of the body, or of one event for `text/event-stream`. */
  readonly content?: Readonly<Record<string, z.ZodType>>;
}

/** The documented part of a route. */
export interface DocumentedRoute extends Endpoint {
  readonly summary: string;
  readonly description?: string;
  readonly params?: Readonly<Record<string, string>>;
  /** Optional query parameters with their description or schema. */
  readonly query?: Readonly<Record<string, string | z.ZodType>>;
  /** Optional request headers with their description or schema. */
  readonly headers?: Readonly<Record<string, string | z.ZodType>>;
  /** Schema of the JSON body. Every violation is reported in one response. */
  readonly body?: z.ZodType;
  /** An empty body with any content type counts as `{}`. */
  readonly isBodyOptional?: true;
  /**
   * The body is UTF-8 text instead of JSON, with content type text/plain, application/toml or none; an absent body is
   * `''`. Requests from pages of another origin are refused. `respondNotText` writes the response to bytes that are not
   * UTF-8.
   */
  readonly textBody?: {
    readonly limitBytes: number;
    readonly respondNotText: (bytes: Uint8Array) => Response;
  };
  /** The body is any bytes instead of JSON. Requests from pages of another origin are refused. */
  readonly rawBody?: { readonly limitBytes: number };
  readonly responses: Readonly<Record<number, ResponseSpec>>;
}

export interface Route extends DocumentedRoute {
  readonly operationId: string;
  /** Limit of the JSON body, where it is lower than `bodyLimitBytes`. */
  readonly jsonLimitBytes?: number;
  /**
   * JSON is also accepted with the content type of a form, text/plain, or none, because curl and fetch send these by
   * default. Requests from pages of another origin are refused.
   */
  readonly acceptsLooseContentType?: true;
  /** Overrides the gate of the plane. */
  readonly gate?: Gate;
  /** The handler checks `x-svc-operator` itself and logs refused attempts. */
  readonly checksOperatorItself?: true;
  /** Set on routes that are answered by the resident model. */
  readonly completion?: CompletionSpec;
  /** Runs before the body is read; refuses by throwing. */
  readonly beforeBody?: (
    request: Pick<PlaneRequest, 'params' | 'headers' | 'by' | 'isLocal'>,
  ) => void | Promise<void>;
  readonly handle: (request: PlaneRequest) => Response | Promise<Response>;
}

type RouteOf<Body extends z.ZodType | undefined, Completion extends CompletionSpec | undefined> = Omit<
  Route,
  'body' | 'completion' | 'handle'
> & {
  readonly body?: Body;
  readonly completion?: Completion;
  readonly handle: (
    request: PlaneRequest<
      Body extends z.ZodType ? z.infer<Body> : undefined,
      Completion extends CompletionSpec ? TraceSpan<'completion'> : undefined
    >,
  ) => Response | Promise<Response>;
};

/** Types the handler's body by the schema. The app calls `handle` only with a body that the schema accepted. */
export function defineRoute<
  Body extends z.ZodType | undefined = undefined,
  Completion extends CompletionSpec | undefined = undefined,
>(route: RouteOf<Body, Completion>): Route {
  return route as unknown as Route;
}

/** A group of routes with one error envelope. */
export interface Plane {
  readonly name: string;
  readonly summary: string;
  /**
   * Paths below these prefixes get this plane's error envelope, even where no route matches. The first plane in the
   * list with a matching prefix wins.
   */
  readonly prefixes: readonly string[];
  readonly envelope: Envelope;
  /** Schema of the error envelope. */
  readonly errorSchema: z.ZodType;
  /** Whether `--allowed-origin` lets web pages of other origins call the plane. */
  readonly isPublicWire?: true;
  /** Gate of all routes of the plane, also on a loopback listener. */
  readonly gate?: Gate;
  readonly routes: readonly Route[];
  /** WebSocket endpoints. */
  readonly sockets?: readonly SocketRoute[];
  /** Public routes that are not served; each is answered with a 404 that explains why. */
  readonly absentRoutes?: readonly AbsentRoute[];
}

export const bodyLimitBytes = 32 * 1024 * 1024;
