import { errorMessage } from '../../src/util/error-message.ts';

/** An error response of the host, or a request without a response. */
export class Fault extends Error {
  override readonly name = 'Fault';
  /** HTTP status; 0: no response. */
  readonly status: number;
  readonly code: string | undefined;
  /** All violations that the host lists. */
  readonly violations: readonly { readonly path: string; readonly message: string }[];
  /** `x-request-id` of the response, which is also in the host's log. */
  readonly requestId: string | undefined;
  /** The response body. */
  readonly body: unknown;

  constructor(
    message: string,
    {
      status = 0,
      code,
      violations = [],
      requestId,
      body,
    }: Partial<Pick<Fault, 'status' | 'code' | 'violations' | 'requestId' | 'body'>> = {},
  ) {
    super(message);
    this.status = status;
    this.code = code;
    this.violations = violations;
    this.requestId = requestId;
    this.body = body;
  }
}

type Open = Readonly<Record<string, unknown>>;
const isRecord = (value: unknown): value is Open => typeof value === 'object' && value !== null;
const stringOrUndefined = (value: unknown): string | undefined =>
  typeof value === 'string' ? value : undefined;

/** Converts an error response; it reads the error envelopes of all planes. */
export function faultOf(response: Response, body: unknown): Fault {
  const envelope = isRecord(body) ? body : {};
  const error = isRecord(envelope['error']) ? envelope['error'] : envelope;
  const listed = error['violations'] ?? envelope['violations'];
  const violations = (Array.isArray(listed) ? (listed as unknown[]) : [])
    .filter(isRecord)
    .map((violation) => ({
      path: stringOrUndefined(violation['path'] ?? violation['param'] ?? violation['field']) ?? '',
      message: stringOrUndefined(violation['message']) ?? JSON.stringify(violation),
    }));
  const message =
    stringOrUndefined(error['message']) ??
    stringOrUndefined(envelope['error']) ??
    stringOrUndefined(body) ??
    `The host answered ${response.status}.`;
  return new Fault(message, {
    status: response.status,
    code: stringOrUndefined(error['code']) ?? stringOrUndefined(error['type']),
    violations,
    requestId: response.headers.get('x-request-id') ?? undefined,
    body,
  });
}

export function asFault(error: unknown): Fault {
  if (error instanceof Fault) return error;
  const message = errorMessage(error);
  // Browsers' messages for a missing file of the page, for example after the host was upgraded.
  if (/module script|imported module|preload/i.test(message))
    return new Fault(
      'A part of this page could not be loaded: the host was stopped, or was upgraded after the page was opened. Reload the page.',
    );
  const isUnanswered = error instanceof TypeError && /fetch|network|load failed/i.test(message);
  return new Fault(isUnanswered ? 'The host does not answer. Is it still running?' : message);
}

/** Fault for a successful response whose body is not valid JSON of the host. */
export const invalidResponseFault = (why: unknown): Fault =>
  new Fault(
    `The response is not a valid answer of this host (${errorMessage(why)}): it was truncated, or something between this page and the host answered instead. Try again.`,
  );
