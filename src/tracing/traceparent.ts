const traceparentPattern = /^00-(?!0{32})[\da-f]{32}-(?!0{16})[\da-f]{16}-[\da-f]{2}$/;

/** The value of a valid W3C `traceparent` header; undefined for an invalid one, which is ignored and not refused. */
export const parseTraceparent = (header: string | null | undefined): string | undefined =>
  header != null && traceparentPattern.test(header) ? header : undefined;
