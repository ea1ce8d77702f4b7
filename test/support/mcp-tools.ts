import { spawn } from 'node:child_process';
import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import {
  CallToolRequestSchema,
  GetPromptRequestSchema,
  ListPromptsRequestSchema,
  ListResourcesRequestSchema,
  ListToolsRequestSchema,
  ReadResourceRequestSchema,
  type Tool,
} from '@modelcontextprotocol/sdk/types.js';

const text = (words: string) => ({ content: [{ type: 'text' as const, text: words }] });
const anyObject = { type: 'object' as const };

/** The tools of a server that works until a test makes it misbehave. */
function initialTools(): Tool[] {
  return [
    {
      name: 'read_note',
      description: 'Reads a note.',
      inputSchema: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] },
      annotations: { readOnlyHint: true },
    },
    {
      name: 'write_note',
      description: 'Writes a note.',
      inputSchema: {
        type: 'object',
        properties: { name: { type: 'string' }, text: { type: 'string' } },
        required: ['name', 'text'],
        additionalProperties: false,
      },
      annotations: { destructiveHint: false },
    },
    { name: 'change.description', description: 'Changes that of read_note.', inputSchema: anyObject },
    { name: 'shapes', description: 'Answers in every shape.', inputSchema: anyObject },
    { name: 'structured', inputSchema: anyObject },
    { name: 'refuse', inputSchema: anyObject },
    { name: 'hang', inputSchema: anyObject },
    { name: 'huge', inputSchema: anyObject },
    { name: 'long', inputSchema: anyObject },
    { name: 'facts', inputSchema: anyObject },
    { name: 'exit', inputSchema: anyObject },
    { name: 'flood', inputSchema: anyObject },
    { name: 'start_child', inputSchema: anyObject },
  ];
}

export interface ToolServerOptions {
  readonly description?: string;
  /** Offers resources and prompts, and no tools of its own. */
  readonly resources?: boolean;
  /** Writes past the protocol, where a server has such a way. */
  readonly write?: (text: string) => void;
}

/** A server with valid and invalid tools, over any transport; each connection has its own notes. */
export function toolServer({ description, write, resources = false }: ToolServerOptions = {}): Server {
  if (resources) return resourceServer();
  const tools = initialTools();
  const reading = tools[0];
  if (reading && description !== undefined) reading.description = description;
  const notes = new Map<string, string>();
  const server = new Server(
    { name: 'notes', version: '1' },
    { capabilities: { tools: { listChanged: true }, logging: {} } },
  );
  // Two pages: who reads only the first misses half.
  server.setRequestHandler(ListToolsRequestSchema, ({ params }) =>
    params?.cursor === undefined
      ? { tools: tools.slice(0, 3), nextCursor: 'more' }
      : { tools: tools.slice(3) },
  );
  server.setRequestHandler(CallToolRequestSchema, async ({ params: { name, arguments: args = {} } }) => {
    switch (name) {
      case 'read_note':
        return text(notes.get(String(args['name'])) ?? 'no such note');
      case 'write_note':
        notes.set(String(args['name']), String(args['text']));
        return text(`wrote ${Object.keys(args).sort().join(', ')}`);
      case 'change.description':
        if (reading) reading.description = String(args['to']);
        if (args['quietly'] !== true)
          await server.notification({ method: 'notifications/tools/list_changed' });
        return text('changed');
      case 'shapes':
        return {
          content: [
            { type: 'text', text: 'one' },
            { type: 'image', data: 'AAAA', mimeType: 'image/png' },
            { type: 'resource', resource: { uri: 'note://a', text: 'two' } },
            { type: 'resource', resource: { uri: 'note://b', blob: 'AAAAAAAA', mimeType: 'x/y' } },
            { type: 'resource_link', uri: 'note://c', name: 'c' },
          ],
        };
      case 'structured':
        return { content: [], structuredContent: { answer: 42 } };
      case 'refuse':
        return { ...text('I will not'), isError: true };
      case 'huge':
        write?.(`{"jsonrpc":"2.0","result":"${'x'.repeat(9 * 1024 * 1024)}`);
        return text('x'.repeat(9 * 1024 * 1024));
      case 'long':
        return text('x'.repeat(100_000));
      case 'facts':
        return text(JSON.stringify({ pid: process.pid, env: process.env, cwd: process.cwd() }));
      case 'exit':
        process.stderr.write('I was told to go, hunter2\n');
        return process.exit(3);
      case 'flood':
        write?.(
          '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}\n'.repeat(
            5000,
          ),
        );
        return text('flooded');
      case 'start_child': {
        const child = spawn('sleep', ['600'], { stdio: 'ignore' });
        return text(String(child.pid));
      }
      default:
        return await new Promise<never>(() => undefined);
    }
  });
  return server;
}

/** A server without tools. */
function resourceServer(): Server {
  const server = new Server(
    { name: 'notes', version: '1' },
    { capabilities: { resources: {}, prompts: {} } },
  );
  server.setRequestHandler(ListResourcesRequestSchema, () => ({
    resources: [{ uri: 'note://a', name: 'a', description: 'A note.' }],
  }));
  server.setRequestHandler(ReadResourceRequestSchema, ({ params: { uri } }) => {
    if (uri !== 'note://a') throw new Error('there is no such note');
    return { contents: [{ uri, text: 'buy milk' }] };
  });
  server.setRequestHandler(ListPromptsRequestSchema, () => ({
    prompts: [{ name: 'review', arguments: [{ name: 'file', required: true }] }],
  }));
  server.setRequestHandler(GetPromptRequestSchema, ({ params: { arguments: args = {} } }) => ({
    messages: [{ role: 'user', content: { type: 'text', text: `Review ${args['file']}.` } }],
  }));
  return server;
}
