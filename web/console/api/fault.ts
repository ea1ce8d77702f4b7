import { errorMessage } from '../../../src/util/error-message.ts';

/** What the host refused, or could not be asked. */
export class Fault extends Error {
  override readonly name = 'Fault';
  /** 0: no answer came. */
  readonly status: number;
  readonly code: string | undefined;
  /** Every violation of a body, where the host lists them. */
  readonly violations: readonly { readonly path: string; readonly message: string }[];
  /** Of the answer, to be found in the host's log. */
  readonly requestId: string | undefined;
  /** The body, as it came. */
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
const textOf = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined);

/** Of an answer that is no success: its envelope may be any plane's. */
export function faultOf(response: Response, body: unknown): Fault {
  const held = isRecord(body) ? body : {};
  const error = isRecord(held['error']) ? held['error'] : held;
  const listed = error['violations'] ?? held['violations'];
  const violations = (Array.isArray(listed) ? (listed as unknown[]) : [])
    .filter(isRecord)
    .map((violation) => ({
      path: textOf(violation['path'] ?? violation['param'] ?? violation['field']) ?? '',
      message: textOf(violation['message']) ?? JSON.stringify(violation),
    }));
  const message =
    textOf(error['message']) ??
    textOf(held['error']) ??
    textOf(body) ??
    `The host answered ${response.status}.`;
  return new Fault(message, {
    status: response.status,
    code: textOf(error['code']) ?? textOf(error['type']),
    violations,
    requestId: response.headers.get('x-request-id') ?? undefined,
    body,
  });
}

export function asFault(error: unknown): Fault {
  if (error instanceof Fault) return error;
  const said = errorMessage(error);
  // What browsers say where a file of the page is not to be had: there are others since the host was renewed.
  if (/module script|imported module|preload/i.test(said))
    return new Fault(
      'A part of this page could not be fetched: the host was stopped, or renewed since the page was opened. Load the page again.',
    );
  const isUnanswered = error instanceof TypeError && /fetch|network|load failed/i.test(said);
  return new Fault(isUnanswered ? 'The host does not answer. Is it still running?' : said);
}

/** Of an answer that is a success, and no JSON as the host writes it. */
export const notWhole = (why: unknown): Fault =>
  new Fault(
    `What came is no whole answer of this host (${errorMessage(why)}): it was cut off, or something between here and the host answered in its place. Try again.`,
  );
