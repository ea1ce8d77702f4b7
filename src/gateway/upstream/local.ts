import { Exchange, type ExchangeContext } from './exchange.ts';
import type { UpstreamReply } from './types.ts';

/** The model of this very process, behind the handler of its own plane. */
export type LocalHandler = (request: Request) => Promise<Response>;

/** One request that never leaves the process. */
export function askLocally(
  handler: LocalHandler,
  {
    path,
    headers,
    text,
  }: { readonly path: string; readonly headers: Record<string, string>; readonly text: string },
  context: ExchangeContext,
): Promise<UpstreamReply> {
  const gone = new AbortController();
  let paused: PromiseWithResolvers<void> | undefined;
  const resume = () => {
    paused?.resolve();
    paused = undefined;
  };
  const exchange = new Exchange(context, {
    pause: () => {
      paused ??= Promise.withResolvers();
    },
    resume,
    abort: () => {
      gone.abort(new Error('given up'));
      resume();
    },
  });
  const run = async () => {
    if (gone.signal.aborted) return;
    const request = new Request(`http://localhost/v1${path}`, {
      method: 'POST',
      headers,
      body: text,
      signal: gone.signal,
    });
    const response = await handler(request);
    if (gone.signal.aborted) {
      await response.body?.cancel();
      return;
    }
    exchange.begin(response.status, Object.fromEntries(response.headers));
    const reader = response.body?.getReader();
    gone.signal.addEventListener('abort', () => {
      reader?.cancel().catch(() => undefined);
    });
    for (let part = await reader?.read(); part && !part.done; part = await reader?.read()) {
      const bytes = part.value as Uint8Array;
      exchange.push(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength));
      await paused?.promise;
    }
    exchange.end();
  };
  run().catch((error: unknown) => exchange.fail(error));
  return exchange.head;
}
