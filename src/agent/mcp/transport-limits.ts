/** Maximum bytes of one message of a server. */
export const maxMessageBytes = 8 * 1024 * 1024;
const maxMessages = 2000;
const windowMs = 1000;

/** The connection to a server must be dropped; the message says what the server did. */
export class McpTransportError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'McpTransportError';
  }
}

export const messageTooLongError = (): McpTransportError =>
  new McpTransportError(`it sent a message of more than ${maxMessageBytes} bytes`);

/**
 * Rate limit for messages of a server. The returned function counts one message, and returns true above the limit.
 * @param now monotonic time in milliseconds
 */
export function createFloodGuard(now: () => number): () => boolean {
  let windowStartMs = now();
  let count = 0;
  return () => {
    if (now() - windowStartMs > windowMs) {
      windowStartMs = now();
      count = 0;
    }
    count++;
    return count > maxMessages;
  };
}

type Fetch = (url: string | URL, init?: RequestInit) => Promise<Response>;

/**
 * `fetch` whose response bodies fail when a message is too long. Event streams may be endless.
 * @param onTooLong called with that error, because the SDK would keep waiting for the answer
 */
export const limitedFetch =
  (onTooLong: (error: McpTransportError) => void): Fetch =>
  async (url, init) => {
    const response = await fetch(url, init);
    if (response.body === null) return response;
    const isEventStream = /^text\/event-stream/i.test(response.headers.get('content-type') ?? '');
    const limited = response.body.pipeThrough(limitMessages(isEventStream, onTooLong));
    const { status, statusText, headers } = response;
    const wrapped = new Response(limited, { status, statusText, headers });
    // The SDK reads the final address of a redirect.
    Object.defineProperty(wrapped, 'url', { value: response.url });
    return wrapped;
  };

/** @param events whether the body is an event stream, in which an empty line ends a message */
function limitMessages(
  isEventStream: boolean,
  onTooLong: (error: McpTransportError) => void,
): TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>> {
  let bytes = 0;
  // An empty line may lie across two chunks.
  let tail = '';
  return new TransformStream({
    transform(chunk, controller) {
      if (isEventStream) {
        const text = tail + Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength).toString('latin1');
        const end = Math.max(
          text.lastIndexOf('\n\n'),
          text.lastIndexOf('\r\n\r\n'),
          text.lastIndexOf('\r\r'),
        );
        bytes = end === -1 ? bytes + chunk.length : text.length - end;
        tail = text.slice(-3);
      } else bytes += chunk.length;
      if (bytes <= maxMessageBytes) {
        controller.enqueue(chunk);
        return;
      }
      const error = messageTooLongError();
      controller.error(error);
      onTooLong(error);
    },
  });
}
