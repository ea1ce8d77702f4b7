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
import type { StartedProcesses } from '../started-processes.ts';
import type { McpServerConfig } from './config.ts';
import { callResult, toToolOutput } from './tool-output.ts';
import { callResourceTool, listResourceTools } from './resource-tools.ts';
import { ChildTransport } from './child-transport.ts';
import { createFloodGuard, limitedFetch, McpTransportError } from './transport-limits.ts';

const maxTools = 500;
const maxPages = 50;
/** Time for the server to end the session. */
const terminateTimeoutMs = 500;
const unknownMethod: number = ErrorCode.MethodNotFound;
/** Statuses that an old server without Streamable HTTP answers with. */
const fallbackStatuses = [400, 404, 405, 406, 415];

const toolsPage = z.looseObject({ tools: z.array(z.unknown()), nextCursor: z.string().optional() });

export interface McpClientOptions {
  /** Version of this program, sent to the server. */
  readonly version: string;
  readonly processes?: StartedProcesses;
  /** Aborts connecting. */
  readonly signal: AbortSignal;
  /** Called as soon as the server is started, with a function that kills it at once when the process exits. */
  readonly onStarted: (kill: () => void) => void;
  /** Called when the list of tools has changed. */
  readonly onListChanged: () => void;
  /** Called once when the connection is lost, and never after `close`. */
  readonly onLost: (reason: Error) => void;
}

/** One connection to a server, until it is lost or closed. */
export interface McpClient {
  /** Tools as the server lists them, not validated. */
  tools(): Promise<unknown[]>;
  /** Calls a tool. Rejects with the signal's reason, or with the server's failure. */
  call(name: string, args: Readonly<Record<string, unknown>>, signal: AbortSignal): Promise<ToolOutput>;
  /** Pings the server, and drops the connection if it does not answer. */
  ping(): Promise<void>;
  close(): Promise<void>;
  /** Kills the server at once, when the process exits. */
  kill(): void;
}

/** Connects. Rejects on failure, after it has released everything. */
export async function connectClient(config: McpServerConfig, options: McpClientOptions): Promise<McpClient> {
  const { transport } = config;
  const tryConnect = (createTransport: MakeTransport) => connect(createTransport, config, options);
  if (transport.kind === 'stdio')
    return await tryConnect(() => new ChildTransport(transport, options.processes));
  const url = new URL(transport.url);
  const requestInit = { headers: transport.headers };
  try {
    return await tryConnect(
      (dropConnection) =>
        new StreamableHTTPClientTransport(url, { fetch: limitedFetch(dropConnection), requestInit }),
    );
  } catch (error) {
    if (!(error instanceof StreamableHTTPError) || !fallbackStatuses.includes(error.code ?? 0)) throw error;
    return await tryConnect(
      (dropConnection) => new SSEClientTransport(url, { fetch: limitedFetch(dropConnection), requestInit }),
    ).catch(() => {
      // The first error says more than that of the fallback.
      throw error;
    });
  }
}

type MakeTransport = (dropConnection: (reason: Error) => void) => Transport;

async function connect(
  createTransport: MakeTransport,
  { timeoutMs }: McpServerConfig,
  { version, signal, onStarted, onListChanged, onLost }: McpClientOptions,
): Promise<McpClient> {
  const client = new Client({ name: 'lathe', version });
  let phase: 'connecting' | 'up' | 'over' = 'connecting';
  let failure: Error | undefined;
  const dropConnection = (reason: Error) => {
    failure ??= reason;
    if (phase === 'over') return;
    const wasUp = phase === 'up';
    phase = 'over';
    kill();
    void client.close().catch(() => undefined);
    // While connecting, `connect` throws the failure instead.
    if (wasUp) onLost(failure);
  };
  const transport = createTransport(dropConnection);
  const kill = () => {
    if (transport instanceof ChildTransport) transport.kill();
  };
  onStarted(kill);
  const isFlooding = createFloodGuard(() => performance.now());
  // The SDK keeps an existing handler, and calls it first.
  const onmessage = () => {
    if (phase !== 'over' && isFlooding())
      dropConnection(new McpTransportError('it floods the host with messages'));
  };
  Object.assign(transport, { onmessage });
  Object.assign(client, {
    onerror: (error: Error) => {
      if (error instanceof McpTransportError) dropConnection(error);
    },
    // While connecting, the error of the attempt is the reason.
    onclose: () => {
      if (phase === 'up') dropConnection(new McpTransportError('the connection was closed'));
    },
  });
  client.setNotificationHandler(ToolListChangedNotificationSchema, () => onListChanged());
  // With the SSE transport, the SDK would wait forever.
  const { promise: aborted, reject: abort } = Promise.withResolvers<never>();
  const timeout = setTimeout(() => abort(timeoutError(timeoutMs)), timeoutMs);
  const onAbort = () => abort(signal.reason);
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    signal.throwIfAborted();
    await Promise.race([client.connect(transport, { timeout: timeoutMs }), aborted]);
    if (phase !== 'connecting') throw failure ?? new McpTransportError('the connection was closed');
    phase = 'up';
  } catch (error) {
    phase = 'over';
    // Closing the transport causes further errors.
    const reason = failure ?? error;
    await transport.close();
    throw reason;
  } finally {
    clearTimeout(timeout);
    signal.removeEventListener('abort', onAbort);
  }
  let ownNames: ReadonlySet<unknown> = new Set();
  return {
    async tools() {
      try {
        const { tools, resources, prompts } = client.getServerCapabilities() ?? {};
        // Some servers have tools without saying so.
        const hasTools = tools !== undefined || (resources === undefined && prompts === undefined);
        const own = hasTools ? await listAllTools(client, timeoutMs) : [];
        ownNames = new Set(own.map((tool) => (tool as { name?: unknown } | null)?.name));
        return [...own, ...listResourceTools(client, ownNames)];
      } catch (error) {
        throw failure ?? error;
      }
    },
    async call(name, args, cancelled) {
      const params = { name, arguments: args };
      // A signal per call, because the SDK does not remove its listener.
      const controller = new AbortController();
      const onCancel = () => controller.abort(cancelled.reason);
      cancelled.throwIfAborted();
      cancelled.addEventListener('abort', onCancel, { once: true });
      try {
        const options = { signal: controller.signal, timeout: timeoutMs };
        const resource = ownNames.has(name) ? undefined : callResourceTool(client, name, args, options);
        if (resource) return await resource;
        return toToolOutput(await client.request({ method: 'tools/call', params }, callResult, options));
      } catch (error) {
        cancelled.throwIfAborted();
        throw failure ?? error;
      } finally {
        cancelled.removeEventListener('abort', onCancel);
      }
    },
    async ping() {
      try {
        await client.ping({ timeout: timeoutMs });
      } catch (error) {
        // An error response is an answer, too.
        if (error instanceof McpError && error.code === unknownMethod) return;
        dropConnection(error instanceof McpError ? timeoutError(timeoutMs) : toError(error));
      }
    },
    async close() {
      phase = 'over';
      if (transport instanceof StreamableHTTPClientTransport)
        await raceTimeout(
          transport.terminateSession().catch(() => undefined),
          terminateTimeoutMs,
        );
      await client.close();
    },
    kill,
  };
}

async function listAllTools(client: Client, timeout: number): Promise<unknown[]> {
  const listed: unknown[] = [];
  let cursor: string | undefined;
  for (let page = 0; page < maxPages && listed.length < maxTools; page++) {
    const params = cursor === undefined ? {} : { cursor };
    const { tools, nextCursor } = await client.request({ method: 'tools/list', params }, toolsPage, {
      timeout,
    });
    listed.push(...tools);
    if (nextCursor === undefined) break;
    cursor = nextCursor;
  }
  return listed.slice(0, maxTools);
}

const timeoutError = (ms: number): McpTransportError =>
  new McpTransportError(`it did not answer within ${ms / 1000} s`);
const toError = (error: unknown): Error => (error instanceof Error ? error : new Error(String(error)));
