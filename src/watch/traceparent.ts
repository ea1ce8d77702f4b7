const form = /^00-(?!0{32})[\da-f]{32}-(?!0{16})[\da-f]{16}-[\da-f]{2}$/;

/** W3C trace context as a header has it; undefined where it is none, which is nobody's fault and no reason to refuse. */
export const traceparentOf = (header: string | null | undefined): string | undefined =>
  header != null && form.test(header) ? header : undefined;
