import { z } from 'zod';
import { list } from '../../http/schema/list.ts';
import { flag, refusedMember, text } from '../core/members.ts';

const ownServersReason = 'the host connects only to the MCP servers of its own configuration';
const labelError = 'expected the name of an MCP server of this host';
const serverLabel = z
  .string({ error: labelError })
  .regex(/^[\w.-]{1,64}$/, labelError)
  .describe('Name of an MCP server of the host: NAME of its `[mcp.NAME]`.');
const toolNames = list(text, { error: 'expected an array of names of tools' });
const filterError = 'expected an array of names of tools, or {tool_names}';
const toolFilter = z.union([toolNames, z.object({ tool_names: toolNames })], { error: filterError });
const approvalError = "expected 'always', 'never', or {always: {tool_names}, never: {tool_names}}";
const namedTools = z.object({ tool_names: toolNames.nullish() }, { error: approvalError });

/** Tools of an MCP server of the host, which the host calls itself. */
export const mcpTool = z.object({
  type: z.literal('mcp'),
  server_label: serverLabel,
  server_description: text.nullish().describe('No effect.'),
  server_url: refusedMember(`${ownServersReason}; name one of them as server_label`),
  connector_id: refusedMember(`${ownServersReason}; name one of them as server_label`),
  authorization: refusedMember(ownServersReason),
  headers: refusedMember(ownServersReason),
  allowed_tools: toolFilter.nullish().describe("The server's tools that the model may call. Default: all."),
  require_approval: z
    .union(
      [z.enum(['always', 'never']), z.object({ always: namedTools.nullish(), never: namedTools.nullish() })],
      {
        error: approvalError,
      },
    )
    .nullish()
    .describe('Which calls the caller must approve first. Default `always`.'),
});
export type McpTool = z.infer<typeof mcpTool>;

/** Whether a call of a tool must be approved. */
export function needsApproval({ require_approval: required }: McpTool, name: string): boolean {
  if (typeof required !== 'object' || required === null) return required !== 'never';
  return required.never?.tool_names?.includes(name) !== true;
}

export function isAllowed({ allowed_tools: allowed }: McpTool, name: string): boolean {
  if (!allowed) return true;
  return (Array.isArray(allowed) ? allowed : allowed.tool_names).includes(name);
}

const calledTool = {
  id: text,
  server_label: serverLabel,
  name: text.describe("The server's own name of the tool."),
  arguments: text.describe('JSON.'),
};

/** Items of a request that earlier answers contained, and decisions of the caller. */
export const mcpInputItems = [
  z.object({ type: z.literal('mcp_list_tools'), server_label: serverLabel }),
  z.object({
    type: z.literal('mcp_call'),
    ...calledTool,
    output: text.nullish(),
    error: z.looseObject({ content: z.unknown() }).nullish().catch(undefined),
    approval_request_id: text.nullish(),
  }),
  z.object({ type: z.literal('mcp_approval_request'), ...calledTool }),
  z.object({
    type: z.literal('mcp_approval_response'),
    approval_request_id: text.describe('Id of an `mcp_approval_request`.'),
    approve: flag,
    reason: text.nullish().describe('Sent to the model where the call is declined.'),
  }),
] as const;

const nullableText = z.string().nullable();
const listedTool = z.object({
  name: z.string(),
  description: nullableText,
  input_schema: z.looseObject({}),
  annotations: z.null(),
});
const outputMembers = { id: z.string(), server_label: z.string() };
const callMembers = { ...outputMembers, name: z.string(), arguments: z.string() };

/** Items of an answer. */
export const mcpOutputItems = [
  z.object({
    type: z.literal('mcp_list_tools'),
    ...outputMembers,
    tools: z.array(listedTool),
    error: nullableText,
  }),
  z.object({
    type: z.literal('mcp_call'),
    ...callMembers,
    status: z.enum(['in_progress', 'completed', 'failed']),
    output: nullableText,
    error: z
      .object({
        type: z.literal('mcp_tool_execution_error'),
        content: z.array(z.object({ type: z.literal('text'), text: z.string() })),
      })
      .nullable(),
    approval_request_id: nullableText,
  }),
  z.object({ type: z.literal('mcp_approval_request'), ...callMembers }),
] as const;
