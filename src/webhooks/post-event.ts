import { parseRetryAfterMs } from '../util/retry-after.ts';
import { systemCode } from '../util/system-code.ts';

export type PostResult =
  | { readonly kind: 'delivered' }
  /** The endpoint wants no more events. */
  | { readonly kind: 'gone' }
  | { readonly kind: 'failed'; readonly error: string; readonly retryAfterMs?: number };

/** Posts a body. Redirects are not followed. Errors name no URL. Rejects only with the signal's reason. */
export async function postEvent(
  url: string,
  { body, headers }: { readonly body: string; readonly headers: Readonly<Record<string, string>> },
  { timeoutMs, signal }: { readonly timeoutMs: number; readonly signal: AbortSignal },
): Promise<PostResult> {
  const timeout = AbortSignal.timeout(timeoutMs);
  try {
    const response = await fetch(url, {
      method: 'POST',
      body,
      headers,
      redirect: 'manual',
      signal: AbortSignal.any([signal, timeout]),
    });
    // Its body is not read.
    await response.body?.cancel().catch(() => undefined);
    const { status, ok } = response;
    if (ok) return { kind: 'delivered' };
    if (status === 410) return { kind: 'gone' };
    const error = `status ${status}${status >= 300 && status < 400 ? ': redirects are not followed' : ''}`;
    const retryAfterMs = parseRetryAfterMs((name) => response.headers.get(name));
    return { kind: 'failed', error, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) };
  } catch (error) {
    signal.throwIfAborted();
    if (timeout.aborted) return { kind: 'failed', error: `no response within ${timeoutMs / 1000} s` };
    const cause = error instanceof Error ? error.cause : undefined;
    // `fetch` refuses ports of other protocols.
    const refusal = cause instanceof Error && cause.message === 'bad port' ? cause.message : undefined;
    return {
      kind: 'failed',
      error: systemCode(cause) ?? systemCode(error) ?? refusal ?? 'the request failed',
    };
  }
}
