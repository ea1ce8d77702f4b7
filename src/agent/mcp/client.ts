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
/** Time for the server to end the session. */
const goodbyeMs = 500;
const unknownMethod: number = ErrorCode.MethodNotFound;
/** Statuses that an old server without Streamable HTTP answers with. */
const notThisWay = [400, 404, 405, 406, 415];

const toolsPage = z.looseObject({ tools: z.array(z.unknown()), nextCursor: z.string().optional() });

export interface ClientOptions {
  /** Version of this program, sent to the server. */
  readonly version: string;
  /** Aborts connecting. */
  readonly signal: AbortSignal;
  /** Called as soon as the server is started, with a function that kills it at once when the process exits. */
  readonly onStarted: (kill: () => void) => void;
  /** Called when the list of tools has changed. */
  readonly onListChanged: () => void;
  /** Called once when the connection is lost, and never after `close`. */
  readonly onLost: (why: Error) => void;
}

/** One connection to a server, until it is lost or closed. */
export interface McpClient {
  /** Tools as the server lists them, not validated. */
  tools(): Promise<unknown[]>;
  /** Calls a tool. Rejects with the signal's reason, or with the server's failure. */
  call(name: string, args: Readonly<Record<string, unknown>>, signal: AbortSignal): Promise<ToolOutput>;
  /** Pings the server, and drops the connection if it does not answer. */
  check(): Promise<void>;
  close(): Promise<void>;
  /** Kills the server at once, when the process exits. */
  kill(): void;
}

/** Connects. Rejects on failure, after it has released everything. */
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
      // The first error says more than that of the fallback.
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
    // While connecting, `connect` throws the failure instead.
    if (wasUp) onLost(failure);
  };
  const transport = make(lose);
  const kill = () => {
    if (transport instanceof ChildTransport) transport.kill();
  };
  onStarted(kill);
  const flooded = floodGuard(() => performance.now());
  // The SDK keeps an existing handler, and calls it first.
  const onmessage = () => {
    if (phase !== 'over' && flooded()) lose(new WireError('it floods the host with messages'));
  };
  Object.assign(transport, { onmessage });
  Object.assign(client, {
    onerror: (error: Error) => {
      if (error instanceof WireError) lose(error);
    },
    // While connecting, the error of the attempt is the reason.
    onclose: () => {
      if (phase === 'up') lose(new WireError('the connection was closed'));
    },
  });
  client.setNotificationHandler(ToolListChangedNotificationSchema, () => onListChanged());
  // With the SSE transport, the SDK would wait forever.
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
    // Closing the transport causes further errors.
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
      // A signal per call, because the SDK does not remove its listener.
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
        // An error response is an answer, too.
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
