/** Maximum UTF-8 bytes of a tool output. */
export const maxOutputBytes = 32 * 1024;

interface Output {
  readonly output: string;
  readonly truncated: boolean;
}

/** Leaves out the middle of a long output, and says so there. */
export function truncateOutput<WithOutput extends Output>(result: WithOutput): WithOutput {
  const bytes = Buffer.from(result.output);
  if (bytes.length <= maxOutputBytes) return result;
  const half = maxOutputBytes / 2 - 50;
  const omitted = bytes.length - 2 * half;
  const head = fitBytes(result.output, half);
  const tail = new TextDecoder().decode(skipContinuation(bytes.subarray(bytes.length - half)));
  return {
    ...result,
    output: `${head}\n(${omitted} of ${bytes.length} bytes left out)\n${tail}`,
    truncated: true,
  };
}

/** The beginning of a text, of at most so many UTF-8 bytes and whole characters. */
export function fitBytes(text: string, bytes: number): string {
  if (text.length * 3 <= bytes) return text;
  const encoded = Buffer.from(text);
  // Streaming mode drops a character that was cut in two.
  return encoded.length <= bytes
    ? text
    : new TextDecoder('utf-8', { ignoreBOM: true }).decode(encoded.subarray(0, bytes), { stream: true });
}

/** The bytes from the first character that begins in them. */
function skipContinuation(bytes: Buffer): Buffer {
  let start = 0;
  while (start < 4 && ((bytes[start] ?? 0) & 0xc0) === 0x80) start += 1;
  return bytes.subarray(start);
}
