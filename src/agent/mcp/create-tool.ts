import { z } from 'zod';
import { AgentError } from '../errors.ts';
import type { ChangeTool, Proposal, ReadTool, Tool, ToolOutput } from '../tool.ts';
import { cleanLine, visibleJson } from './clean-text.ts';
import type { McpServerConfig } from './config.ts';
import { withIntent } from './intent.ts';
import type { ListedTool } from './listed-tool.ts';
import { mcpToolName } from './tool-name.ts';

/** The part of a server that its tools need. */
export interface McpServerView {
  readonly config: McpServerConfig;
  readonly listedTools: ReadonlyMap<string, ListedTool>;
  readonly downReason: string | undefined;
  /** Lists the tools again. */
  refresh(): Promise<void>;
  call(name: string, args: Readonly<Record<string, unknown>>, signal: AbortSignal): Promise<ToolOutput>;
}

/** Payload of a staged call: everything that the approving person sees, and the hash of the tool at that time. */
const stagedCall = z.object({
  server: z.string(),
  tool: z.string(),
  arguments: z.record(z.string(), z.unknown()),
  pin: z.string(),
});

/** Characters that a person can be expected to read before approving. */
const maxShownLength = 65_536;
const maxIntent = 500;

/** Creates the tool of a listed tool. Its annotations are trusted only when it is pinned unchanged. */
export function createTool(listed: ListedTool, server: McpServerView): Tool {
  const pinned = server.config.pins.get(listed.name);
  return pinned === listed.pin && listed.hints.readOnly
    ? createReadTool(listed, server)
    : createChangeTool(listed, server, pinned);
}

/** Placeholder of a pinned tool that the server does not list now. */
export function createAbsentTool(name: string, pin: string, server: McpServerView): Tool {
  const placeholder: ListedTool = {
    name,
    description: '',
    inputSchema: { type: 'object' },
    hints: { readOnly: false, destructive: true },
    pin,
  };
  return createChangeTool(placeholder, server, pin);
}

function commonMembers({ name, description, pin }: ListedTool, server: McpServerView) {
  return {
    name: mcpToolName(server.config.name, name),
    description,
    source: `mcp:${server.config.name}`,
    pin,
    unavailable: () => findUnavailableReason(name, pin, server),
  } as const;
}

function createReadTool(listed: ListedTool, server: McpServerView): ReadTool {
  return {
    ...commonMembers(listed, server),
    kind: 'read',
    inputSchema: listed.inputSchema,
    async run(args, { signal }) {
      const reason = findUnavailableReason(listed.name, listed.pin, server);
      return reason === undefined ? await server.call(listed.name, args, signal) : failedOutput(reason);
    },
  };
}

function createChangeTool(listed: ListedTool, server: McpServerView, pinned: string | undefined): ChangeTool {
  const { name, pin } = listed;
  const { config } = server;
  const intentSchema = withIntent(listed.inputSchema);
  return {
    ...commonMembers(listed, server),
    kind: 'change',
    inputSchema: intentSchema.schema,
    ...(pinned === undefined ? { gatedReason: notPinnedReason(name, pin, config.name) } : {}),
    propose(proposedArgs) {
      const reason = findUnavailableReason(name, pin, server);
      if (reason !== undefined) return Promise.resolve(failedOutput(reason));
      const { intent, args } = intentSchema.splitArguments(proposedArgs);
      const shownArguments = visibleJson(args);
      if (shownArguments.length > maxShownLength)
        return Promise.resolve(
          failedOutput(
            `The arguments are longer than ${maxShownLength} characters, more than a person can approve.`,
          ),
        );
      const proposal: Proposal = {
        kind: 'tool_call',
        intent: cleanLine(intent, maxIntent),
        summary: `call ${visibleJson(name)} of the MCP server '${config.name}' with ${shownArguments}`,
        risk: pinned === pin && !listed.hints.destructive ? 'medium' : 'high',
        payload: { server: config.name, tool: name, arguments: args, pin } satisfies z.infer<
          typeof stagedCall
        >,
      };
      return Promise.resolve(proposal);
    },
    async apply(payload, signal) {
      const staged = stagedCall.parse(payload);
      // The call may have been staged long ago, and servers need not report a changed tool.
      await server.refresh();
      signal.throwIfAborted();
      if (server.downReason !== undefined)
        throw new AgentError('unavailable', 'tool_unavailable', serverDownMessage(server));
      const reason = findUnavailableReason(staged.tool, staged.pin, server);
      if (reason !== undefined)
        throw new AgentError(
          'conflict',
          'base_moved',
          `${reason} Discard this change; it can be proposed again.`,
        );
      return await server.call(staged.tool, staged.arguments, signal);
    },
  };
}

/**
 * Why a tool cannot be called in the form that was seen; undefined when it can.
 * @param seen hash of the tool at that time
 */
function findUnavailableReason(name: string, seenPin: string, server: McpServerView): string | undefined {
  const { config, listedTools, downReason } = server;
  const pinned = config.pins.get(name);
  const currentPin = listedTools.get(name)?.pin;
  if (pinned !== undefined && currentPin !== undefined && currentPin !== pinned)
    return (
      `The MCP server '${config.name}' changed this tool after it was pinned: it was ${pinned} and is ${currentPin}. ` +
      `Look at it with 'mcp show ${config.name}' and pin it again with 'mcp pins ${config.name}'.`
    );
  if (downReason !== undefined) return serverDownMessage(server);
  if (currentPin === undefined) return `The MCP server '${config.name}' has no tool '${name}' (any more).`;
  if (currentPin !== seenPin)
    return `The MCP server '${config.name}' changed this tool in the meantime: it was ${seenPin} and is ${currentPin}.`;
  return undefined;
}

const serverDownMessage = ({ config, downReason }: McpServerView): string =>
  `The MCP server '${config.name}' cannot be used at the moment: ${downReason}.`;

const notPinnedReason = (name: string, pin: string, server: string): string =>
  `Not pinned, so its annotations are not trusted. Review it with 'mcp show ${server}'; to pin it, add ${JSON.stringify(name)} = "${pin}" to [mcp.${server}.pins].`;

const failedOutput = (output: string): ToolOutput => ({ ok: false, output, truncated: false });
