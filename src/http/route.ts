import type { z } from 'zod';
import type { CompletionFacts, Work } from '../watch/index.ts';
import type { Envelope, HttpError } from './error.ts';
import type { AbsentRoute, Endpoint } from './router.ts';

/** What a route asks for beyond what its listener does. */
export type Gate = 'bearer' | 'operator';

/** Who asks. */
export interface Caller {
  /** As `acts.by` of src/store/schema.ts. */
  readonly by: string;
  /** On this machine, by the address of the socket. */
  readonly local: boolean;
  /** Scope of the peer's token that was sent. Absent: no limit. */
  readonly scope?: readonly string[];
}

/** A request before anything of it is read. */
export interface EnteringRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: Headers;
  /** Of the socket. */
  readonly remoteAddress: string | undefined;
}

/** Who may come in. Each refuses by throwing an `HttpError`. */
export interface AccessControl {
  /**
   * Before anything is read or routed.
   * @param options.isOperatorJudgedLater the route says itself what a wrong credential of the operator is
   */
  readonly enter: (
    request: EnteringRequest,
    options?: { readonly isOperatorJudgedLater?: boolean },
  ) => Promise<Caller>;
  /** Before the body of a gated route is read. */
  readonly pass: (gate: Gate, caller: Caller, headers: Headers) => Promise<Caller>;
  /** After both. */
  readonly permitRoute: (caller: Caller, plane: string, route: Route) => void;
}

/** What a handler gets: the checked body, the parameters of path and query, and a signal that ends with the client or the host. */
interface PlaneRequest<Body = unknown, Watched = Work<'completion'> | undefined> extends Caller {
  readonly body: Body;
  /** Of a route with `completion`: begun when the request came, and ended with its answer. */
  readonly work: Watched;
  /** Of a route with `rawBody`, else empty: breaks with a `HttpError` where there are too many. */
  readonly bytes: AsyncIterable<Uint8Array>;
  /** Of a route with `textBody`, else empty. */
  readonly text: string;
  readonly params: Readonly<Record<string, string>>;
  readonly query: URLSearchParams;
  readonly headers: Headers;
  readonly signal: AbortSignal;
  /** Resolves when the answer is out to its last byte, or nobody reads it any more. */
  readonly over: Promise<void>;
  /** What the answer's `x-request-id` says. */
  readonly requestId: string;
  /** Makes any error an answer: one that is no `HttpError` is a fault of ours, logged and told as a 500. */
  readonly asHttpError: (error: unknown) => HttpError;
}

/** What those hear who watch the resident model's answers. */
export interface CompletionSpec extends Pick<CompletionFacts, 'wire' | 'operation'> {
  /** Where the body's `stream` says nothing. */
  readonly streams?: true;
}

/** One kind of answer in the OpenAPI document. */
export interface AnswerSpec {
  readonly description: string;
  /** Content type to the schema of one body, or of one event for `text/event-stream`. */
  readonly content?: Readonly<Record<string, z.ZodType>>;
}

/** What the OpenAPI document says of a route. */
export interface DocumentedRoute extends Endpoint {
  readonly summary: string;
  readonly description?: string;
  readonly params?: Readonly<Record<string, string>>;
  /** Optional parameters behind the question mark, with what they mean. */
  readonly query?: Readonly<Record<string, string>>;
  /** Optional headers of its own, with what they mean, or a schema that says it. */
  readonly headers?: Readonly<Record<string, string | z.ZodType>>;
  /** JSON; every violation is reported at once. */
  readonly body?: z.ZodType;
  /** An empty body, whatever its content type, counts as `{}`. */
  readonly bodyOptional?: true;
  /**
   * UTF-8 text instead of JSON, as text/plain, application/toml or without a type; `''` where there is none. Not from
   * pages of another origin. Bytes that are no UTF-8 are answered by `notText`.
   */
  readonly textBody?: {
    readonly limitBytes: number;
    readonly notText: (bytes: Uint8Array) => Response;
  };
  /** Any bytes instead of JSON; not from pages of another origin. */
  readonly rawBody?: { readonly limitBytes: number };
  readonly answers: Readonly<Record<number, AnswerSpec>>;
}

export interface Route extends DocumentedRoute {
  readonly operationId: string;
  /** Of a JSON body, where it is less than what all of them may have. */
  readonly jsonLimitBytes?: number;
  /**
   * JSON counts as JSON also under the type of a form, of plain text or none, as curl and fetch send it where nobody
   * names one; not from pages of another origin.
   */
  readonly looseBody?: true;
  /** Over the plane's. */
  readonly gate?: Gate;
  /** A wrong `x-svc-operator` is refused by the handler, which logs it, and not before it. */
  readonly judgesOperator?: true;
  /** The resident model answers. */
  readonly completion?: CompletionSpec;
  /** Refuses before the body is read, by throwing. */
  readonly before?: (
    request: Pick<PlaneRequest, 'params' | 'headers' | 'by' | 'local'>,
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
      Completion extends CompletionSpec ? Work<'completion'> : undefined
    >,
  ) => Response | Promise<Response>;
};

/** Ties the handler's body to the schema. The app calls `handle` only with a body that the schema accepted. */
export function defineRoute<
  Body extends z.ZodType | undefined = undefined,
  Completion extends CompletionSpec | undefined = undefined,
>(route: RouteOf<Body, Completion>): Route {
  return route as unknown as Route;
}

/** A family of routes with one error envelope. */
export interface Plane {
  readonly name: string;
  readonly summary: string;
  /**
   * What is under these paths gets this plane's envelope also where no route fits. The first plane in the list that
   * has a prefix of the path counts.
   */
  readonly prefixes: readonly string[];
  readonly envelope: Envelope;
  /** The schema of that envelope. */
  readonly errorSchema: z.ZodType;
  /** What all of its routes ask for, also where the listener is open. */
  readonly gate?: Gate;
  readonly routes: readonly Route[];
  /** Answered with a 404 that says what is not there. */
  readonly absent?: readonly AbsentRoute[];
}

export const bodyLimitBytes = 32 * 1024 * 1024;
