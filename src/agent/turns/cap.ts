/** Maximum UTF-8 bytes of a tool output. */
export const mostOutputBytes = 32 * 1024;

interface Output {
  readonly output: string;
  readonly truncated: boolean;
}

/** Cuts a long output, and appends how much was left out. */
export function capped<Any extends Output>(made: Any): Any {
  const { output } = made;
  const bytes = Buffer.byteLength(output);
  if (bytes <= mostOutputBytes) return made;
  const kept = Buffer.from(output).subarray(0, mostOutputBytes - 100);
  // Streaming mode drops a character that was cut in two.
  const text = new TextDecoder().decode(kept, { stream: true });
  return {
    ...made,
    output: `${text}\n(cut off: the first ${kept.length} of ${bytes} bytes)`,
    truncated: true,
  };
}
