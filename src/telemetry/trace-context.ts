/** A place in a trace, as the header `traceparent` of the W3C's Trace Context names it. */
export interface TraceContext {
  /** 32 hex digits. */
  readonly traceId: string;
  /** 16 hex digits. */
  readonly spanId: string;
  /** The lowest bit: whether it is recorded. */
  readonly traceFlags: number;
}

const form = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;

/** Undefined where it is none: such a one counts as not sent. Later versions may have more members. */
export function readTraceparent(text: string | undefined): TraceContext | undefined {
  const [, version, traceId = '', spanId = '', flags = '', more] = form.exec(text?.trim() ?? '') ?? [];
  if (version === undefined || version === 'ff' || (version === '00' && more !== undefined)) return undefined;
  return { traceId, spanId, traceFlags: Number.parseInt(flags, 16) & 1 };
}

export const traceparentOf = ({ traceId, spanId, traceFlags }: TraceContext): string =>
  `00-${traceId}-${spanId}-${(traceFlags & 1) === 1 ? '01' : '00'}`;
