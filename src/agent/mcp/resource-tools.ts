import type { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { z } from 'zod';
import type { ToolOutput } from '../tool.ts';
import { toToolOutput } from './tool-output.ts';

/**
 * Resources and prompts of a server as tools that only read. They are listed, pinned and granted like the server's own tools,
 * because what a server returns is as little to be trusted as its descriptions.
 */
interface ResourceTool {
  readonly capability: 'resources' | 'prompts';
  readonly definition: {
    readonly name: string;
    readonly description: string;
    readonly inputSchema: object;
    readonly annotations: { readonly readOnlyHint: true };
  };
  readonly method: string;
  readonly toOutput: (result: z.infer<typeof anyResult>) => ToolOutput;
}

const anyResult = z.looseObject({});
const text = (description: string) => ({ type: 'string', description });
const objectSchema = (properties: Readonly<Record<string, object>>, required: readonly string[] = []) => ({
  type: 'object',
  properties,
  required,
  additionalProperties: false,
});
const cursor = { cursor: text('The nextCursor of the list before, for more.') };
const asJson = (result: unknown): ToolOutput =>
  toToolOutput({ content: [{ type: 'text', text: JSON.stringify(result) }] });

const resourceTools: readonly ResourceTool[] = [
  {
    capability: 'resources',
    method: 'resources/list',
    definition: {
      name: 'list_resources',
      description: 'Lists the resources of this server, such as files and records, with their URIs.',
      inputSchema: objectSchema(cursor),
      annotations: { readOnlyHint: true },
    },
    toOutput: ({ resources, nextCursor }) => asJson({ resources, nextCursor }),
  },
  {
    capability: 'resources',
    method: 'resources/read',
    definition: {
      name: 'read_resource',
      description: 'Reads a resource of this server.',
      inputSchema: objectSchema({ uri: text('URI of the resource, as list_resources shows it.') }, ['uri']),
      annotations: { readOnlyHint: true },
    },
    toOutput: ({ contents }) =>
      toToolOutput({
        content: (Array.isArray(contents) ? contents : []).map((resource: unknown) => ({
          type: 'resource',
          resource,
        })),
      }),
  },
  {
    capability: 'prompts',
    method: 'prompts/list',
    definition: {
      name: 'list_prompts',
      description: 'Lists the prompts that this server offers, with their arguments.',
      inputSchema: objectSchema(cursor),
      annotations: { readOnlyHint: true },
    },
    toOutput: ({ prompts, nextCursor }) => asJson({ prompts, nextCursor }),
  },
  {
    capability: 'prompts',
    method: 'prompts/get',
    definition: {
      name: 'get_prompt',
      description: 'Returns a prompt of this server with its arguments filled in.',
      inputSchema: objectSchema(
        {
          name: text('Name of the prompt.'),
          arguments: { type: 'object', additionalProperties: { type: 'string' } },
        },
        ['name'],
      ),
      annotations: { readOnlyHint: true },
    },
    toOutput: ({ messages }) =>
      toToolOutput({
        content: (Array.isArray(messages) ? (messages as unknown[]) : []).flatMap((message) => {
          const { role, content } = (message ?? {}) as { role?: unknown; content?: unknown };
          return [{ type: 'text', text: `${String(role)}:` }, ...asParts(content)];
        }),
      }),
  },
];

const asParts = (content: unknown): { type: string }[] =>
  (Array.isArray(content) ? (content as unknown[]) : [content]).filter(
    (part): part is { type: string } =>
      typeof part === 'object' && part !== null && 'type' in part && typeof part.type === 'string',
  );

/** The definitions for what a server offers beside its tools. @param own names of its own tools, which win */
export function listResourceTools(client: Client, own: ReadonlySet<unknown>): readonly object[] {
  const capabilities = client.getServerCapabilities() ?? {};
  return resourceTools
    .filter(
      ({ capability, definition }) => capabilities[capability] !== undefined && !own.has(definition.name),
    )
    .map(({ definition }) => definition);
}

/** Calls such a tool; undefined where the name is that of another one. */
export function callResourceTool(
  client: Client,
  name: string,
  args: Readonly<Record<string, unknown>>,
  options: { readonly signal: AbortSignal; readonly timeout: number },
): Promise<ToolOutput> | undefined {
  const tool = resourceTools.find(({ definition }) => definition.name === name);
  return (
    tool && client.request({ method: tool.method, params: args }, anyResult, options).then(tool.toOutput)
  );
}
