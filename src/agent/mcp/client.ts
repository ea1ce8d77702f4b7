import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import {
  StreamableHTTPClientTransport,
  StreamableHTTPError,
} from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import { ErrorCode, McpError, ToolListChangedNotificationSchema } from '@modelcontextprotocol/sdk/types.js';
import { z } from 'zod';
import { raceTimeout } from '../../util/race-timeout.ts';
import type { ToolOutput } from '../tool.ts';
import type { McpServerConfig } from './config.ts';
import { callResult, outputOf } from './output.ts';
import { ChildTransport } from './stdio.ts';
import { floodGuard, limitedFetch, WireError } from './wire.ts';

const mostTools = 500;
const mostPages = 50;
/** For the server to hear that its session is over. */
const goodbyeMs = 500;
const unknownMethod: number = ErrorCode.MethodNotFound;
/** Of the two ways to speak HTTP, an old server refuses the new one with one of these. */
const notThisWay = [400, 404, 405, 406, 415];

const toolsPage = z.looseObject({ tools: z.array(z.unknown()), nextCursor: z.string().optional() });

export interface ClientOptions {
  /** Of this program: servers are told it. */
  readonly version: string;
  /** Gives up connecting. */
  readonly signal: AbortSignal;
  /** Gets what ends the server at once, as soon as there is one, for the end of the process. */
  readonly onStarted: (kill: () => void) => void;
  /** The list of tools is another one now. */
  readonly onListChanged: () => void;
  /** It is of no use any more; called once, and not after `close`. */
  readonly onLost: (why: Error) => void;
}

/** One connection to a server, up until it is lost or closed. */
export interface McpClient {
  /** As the server lists them, unchecked. */
  tools(): Promise<unknown[]>;
  /** Rejects with the signal's reason, or with what went wrong with the server. */
  call(name: string, args: Readonly<Record<string, unknown>>, signal: AbortSignal): Promise<ToolOutput>;
  /** Loses the connection where it does not answer. */
  check(): Promise<void>;
  close(): Promise<void>;
  /** For the end of the process: at once. */
  kill(): void;
}

/** Connects; rejects where that fails, with nothing left behind. */
export async function openClient(config: McpServerConfig, options: ClientOptions): Promise<McpClient> {
  const { transport } = config;
  const open = (make: MakeTransport) => connect(make, config, options);
  if (transport.kind === 'stdio') return await open(() => new ChildTransport(transport));
  const url = new URL(transport.url);
  const requestInit = { headers: transport.headers };
  try {
    return await open(
      (lose) => new StreamableHTTPClientTransport(url, { fetch: limitedFetch(lose), requestInit }),
    );
  } catch (error) {
    if (!(error instanceof StreamableHTTPError) || !notThisWay.includes(error.code ?? 0)) throw error;
    return await open(
      (lose) => new SSEClientTransport(url, { fetch: limitedFetch(lose), requestInit }),
    ).catch(() => {
      // The server's own refusal says more than that of a second way that it does not know either.
      throw error;
    });
  }
}

type MakeTransport = (lose: (why: Error) => void) => Transport;

async function connect(
  make: MakeTransport,
  { timeoutMs }: McpServerConfig,
  { version, signal, onStarted, onListChanged, onLost }: ClientOptions,
): Promise<McpClient> {
  const client = new Client({ name: 'lathe', version });
  let phase: 'connecting' | 'up' | 'over' = 'connecting';
  let failure: Error | undefined;
  const lose = (why: Error) => {
    failure ??= why;
    if (phase === 'over') return;
    const wasUp = phase === 'up';
    phase = 'over';
    kill();
    void client.close().catch(() => undefined);
    // Of one that never was up, `connect` says it.
    if (wasUp) onLost(failure);
  };
  const transport = make(lose);
  const kill = () => {
    if (transport instanceof ChildTransport) transport.kill();
  };
  onStarted(kill);
  const flooded = floodGuard(() => performance.now());
  // The SDK keeps what is there already, and calls it first.
  const onmessage = () => {
    if (phase !== 'over' && flooded()) lose(new WireError('it floods the host with messages'));
  };
  Object.assign(transport, { onmessage });
  Object.assign(client, {
    onerror: (error: Error) => {
      if (error instanceof WireError) lose(error);
    },
    // Before it is up, what failed is what closed it.
    onclose: () => {
      if (phase === 'up') lose(new WireError('the connection was closed'));
    },
  });
  client.setNotificationHandler(ToolListChangedNotificationSchema, () => onListChanged());
  // Of the old transport over HTTP, the SDK would wait for ever.
  const { promise: givenUp, reject: giveUp } = Promise.withResolvers<never>();
  const late = setTimeout(() => giveUp(silence(timeoutMs)), timeoutMs);
  const stop = () => giveUp(signal.reason);
  signal.addEventListener('abort', stop, { once: true });
  try {
    signal.throwIfAborted();
    await Promise.race([client.connect(transport, { timeout: timeoutMs }), givenUp]);
    if (phase !== 'connecting') throw failure ?? new WireError('the connection was closed');
    phase = 'up';
  } catch (error) {
    phase = 'over';
    // Closing it gives further reasons.
    const why = failure ?? error;
    await transport.close();
    throw why;
  } finally {
    clearTimeout(late);
    signal.removeEventListener('abort', stop);
  }
  return {
    async tools() {
      try {
        return await allTools(client, timeoutMs);
      } catch (error) {
        throw failure ?? error;
      }
    },
    async call(name, args, cancelled) {
      const params = { name, arguments: args };
      // One of the call's own: the SDK leaves its listener on the signal that it is given.
      const controller = new AbortController();
      const cancel = () => controller.abort(cancelled.reason);
      cancelled.throwIfAborted();
      cancelled.addEventListener('abort', cancel, { once: true });
      try {
        const options = { signal: controller.signal, timeout: timeoutMs };
        return outputOf(await client.request({ method: 'tools/call', params }, callResult, options));
      } catch (error) {
        cancelled.throwIfAborted();
        throw failure ?? error;
      } finally {
        cancelled.removeEventListener('abort', cancel);
      }
    },
    async check() {
      try {
        await client.ping({ timeout: timeoutMs });
      } catch (error) {
        // A refusal is an answer, too.
        if (error instanceof McpError && error.code === unknownMethod) return;
        lose(error instanceof McpError ? silence(timeoutMs) : asError(error));
      }
    },
    async close() {
      phase = 'over';
      if (transport instanceof StreamableHTTPClientTransport)
        await raceTimeout(
          transport.terminateSession().catch(() => undefined),
          goodbyeMs,
        );
      await client.close();
    },
    kill,
  };
}

async function allTools(client: Client, timeout: number): Promise<unknown[]> {
  const found: unknown[] = [];
  let cursor: string | undefined;
  for (let page = 0; page < mostPages && found.length < mostTools; page++) {
    const params = cursor === undefined ? {} : { cursor };
    const { tools, nextCursor } = await client.request({ method: 'tools/list', params }, toolsPage, {
      timeout,
    });
    found.push(...tools);
    if (nextCursor === undefined) break;
    cursor = nextCursor;
  }
  return found.slice(0, mostTools);
}

const silence = (ms: number): WireError => new WireError(`it did not answer within ${ms / 1000} s`);
const asError = (error: unknown): Error => (error instanceof Error ? error : new Error(String(error)));
