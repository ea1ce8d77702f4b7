import { Client } from 'undici';
import { type ResolveHost, systemResolve } from '../../addresses/resolve.ts';
import { sendRequest } from './upstream-exchange.ts';
import { ProviderFailures } from './provider-failures.ts';
import { UpstreamFailure } from '../../wires/core/upstream-failure.ts';
import { AddressRefusedError, type UrlRules, createVettedConnector, vetUrl } from './address-vetting.ts';

export interface VettedGetOptions extends UrlRules {
  /** The provider name for messages. */
  readonly name: string;
  readonly headers: Readonly<Record<string, string>>;
  /** For the whole request. */
  readonly timeoutMs?: number;
  readonly resolve?: ResolveHost;
  readonly signal?: AbortSignal;
}

/**
 * GETs a URL for its status only: the body is not read, redirects are not followed, and the connection is not reused.
 * @throws AddressRefusedError, or UpstreamFailure when there is no answer
 */
export async function vettedStatus(
  urlText: string,
  {
    mode,
    hostSuffixes = [],
    name,
    headers,
    timeoutMs = 10_000,
    resolve = systemResolve,
    signal,
  }: VettedGetOptions,
): Promise<{ readonly status: number }> {
  const url = vetUrl(urlText, { mode, hostSuffixes });
  const client = new Client(url.origin, {
    connect: createVettedConnector(mode, { resolve, connectMs: timeoutMs }),
    headersTimeout: 0,
    bodyTimeout: 0,
    maxHeaderSize: 32 * 1024,
  });
  try {
    const reply = await sendRequest(
      client,
      { method: 'GET', path: url.pathname + url.search, headers },
      {
        limits: { totalMs: timeoutMs, idleMs: timeoutMs, maxAnswerBytes: 64 * 1024, maxEventChars: 1 },
        failures: new ProviderFailures(name),
        signal: signal ?? new AbortController().signal,
        onEnd: () => undefined,
      },
    );
    reply.cut();
    return { status: reply.status };
  } catch (error) {
    if (error instanceof UpstreamFailure && error.cause instanceof AddressRefusedError) throw error.cause;
    throw error;
  } finally {
    await client.destroy();
  }
}
