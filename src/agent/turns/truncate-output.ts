/** Maximum UTF-8 bytes of a tool output. */
export const maxOutputBytes = 32 * 1024;

interface Output {
  readonly output: string;
  readonly truncated: boolean;
}

/** Cuts a long output, and appends how much was left out. */
export function truncateOutput<WithOutput extends Output>(result: WithOutput): WithOutput {
  const { output } = result;
  const bytes = Buffer.byteLength(output);
  if (bytes <= maxOutputBytes) return result;
  const kept = Buffer.from(output).subarray(0, maxOutputBytes - 100);
  // Streaming mode drops a character that was cut in two.
  const text = new TextDecoder().decode(kept, { stream: true });
  return {
    ...result,
    output: `${text}\n(cut off: the first ${kept.length} of ${bytes} bytes)`,
    truncated: true,
  };
}
