/** UTF-8 bytes of an output that a model gets to read. */
export const mostOutputBytes = 32 * 1024;

interface Output {
  readonly output: string;
  readonly truncated: boolean;
}

/** No more than a model should read at once; what is left out is said. */
export function capped<Any extends Output>(made: Any): Any {
  const { output } = made;
  const bytes = Buffer.byteLength(output);
  if (bytes <= mostOutputBytes) return made;
  const kept = Buffer.from(output).subarray(0, mostOutputBytes - 100);
  // A character that was cut in two is dropped.
  const text = new TextDecoder().decode(kept, { stream: true });
  return {
    ...made,
    output: `${text}\n(cut off: the first ${kept.length} of ${bytes} bytes)`,
    truncated: true,
  };
}
