import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { SSEServerTransport } from '@modelcontextprotocol/sdk/server/sse.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import type { McpServerConfig } from '../../src/agent/mcp/config.ts';
import { toolServer } from './mcp-tools.ts';
import { supportProgram } from './host.ts';

const script = supportProgram('mcp-child');

/** The command line of a server over stdio. */
export const childCommand = (mode: string, description?: string): [string, ...string[]] => [
  process.execPath,
  '--no-warnings',
  script,
  mode,
  ...(description === undefined ? [] : [description]),
];

export function childConfig(
  mode: string,
  more: {
    description?: string;
    pins?: Record<string, string>;
    timeoutMs?: number;
    env?: Record<string, string>;
  } = {},
): McpServerConfig {
  const [program, ...args] = childCommand(mode, more.description);
  return {
    name: 'notes',
    timeoutMs: more.timeoutMs ?? 120_000,
    pins: new Map(Object.entries(more.pins ?? {})),
    transport: {
      kind: 'stdio',
      program,
      args,
      inherited: { PATH: process.env['PATH'] ?? '' },
      env: more.env ?? {},
      cwd: undefined,
    },
  };
}

export function httpConfig(
  url: string,
  more: { pins?: Record<string, string>; timeoutMs?: number; headers?: Record<string, string> } = {},
): McpServerConfig {
  return {
    name: 'notes',
    timeoutMs: more.timeoutMs ?? 120_000,
    pins: new Map(Object.entries(more.pins ?? {})),
    transport: { kind: 'http', url, headers: more.headers ?? {} },
  };
}

/** A server over HTTP in this process. `streamable` is the protocol of today, `sse` the one before. */
export async function httpServer(
  kind: 'streamable' | 'sse',
  { token, port = 0 }: { token?: string; port?: number } = {},
) {
  const sessions = new Map<string, StreamableHTTPServerTransport>();
  const streams = new Map<string, SSEServerTransport>();

  const streamable = async (request: IncomingMessage, response: ServerResponse) => {
    const known = sessions.get(String(request.headers['mcp-session-id']));
    if (known) return await known.handleRequest(request, response);
    if (request.headers['mcp-session-id'] !== undefined) return void response.writeHead(404).end();
    const transport: StreamableHTTPServerTransport = new StreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (id) => void sessions.set(id, transport),
    });
    await toolServer().connect(transport);
    return await transport.handleRequest(request, response);
  };
  const events = async (request: IncomingMessage, response: ServerResponse) => {
    if (request.method === 'GET') {
      const transport = new SSEServerTransport('/mcp', response);
      streams.set(transport.sessionId, transport);
      return await toolServer().connect(transport);
    }
    const id = new URL(request.url ?? '', 'http://x').searchParams.get('sessionId');
    const known = streams.get(id ?? '');
    if (known) return await known.handlePostMessage(request, response);
    return void response.writeHead(405).end();
  };

  const server = createServer((request, response) => {
    if (token !== undefined && request.headers.authorization !== `Bearer ${token}`) {
      response.writeHead(401).end(`not ${request.headers.authorization}`);
      return;
    }
    void (kind === 'streamable' ? streamable : events)(request, response);
  });
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  const own = (server.address() as AddressInfo).port;
  return {
    url: `http://127.0.0.1:${own}/mcp`,
    port: own,
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** Whether a process exists and is not a zombie. */
export async function isAlive(pid: number): Promise<boolean> {
  const { readFile } = await import('node:fs/promises');
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => undefined);
  return stat !== undefined && !/^\d+ \(.*\) Z/.test(stat);
}
