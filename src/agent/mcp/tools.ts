import { z } from 'zod';
import { AgentError } from '../errors.ts';
import type { ChangeTool, Proposal, ReadTool, Tool, ToolOutput } from '../tool.ts';
import { oneLine, visibleJson } from './clean-text.ts';
import type { McpServerConfig } from './config.ts';
import { askingIntent } from './intent.ts';
import type { ListedTool } from './listed-tool.ts';
import { toolName } from './tool-name.ts';

/** The part of a server that its tools need. */
export interface ServerView {
  readonly config: McpServerConfig;
  readonly listed: ReadonlyMap<string, ListedTool>;
  readonly down: string | undefined;
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
const mostShown = 65_536;
const mostIntent = 500;

/** Creates the tool of a listed tool. Its annotations are trusted only when it is pinned unchanged. */
export function toolOf(listed: ListedTool, server: ServerView): Tool {
  const pinned = server.config.pins.get(listed.name);
  return pinned === listed.pin && listed.hints.readOnly
    ? readTool(listed, server)
    : changeTool(listed, server, pinned);
}

/** Placeholder of a pinned tool that the server does not list now. */
export function absentTool(name: string, pin: string, server: ServerView): Tool {
  const nothing: ListedTool = {
    name,
    description: '',
    inputSchema: { type: 'object' },
    hints: { readOnly: false, destructive: true },
    pin,
  };
  return changeTool(nothing, server, pin);
}

function common({ name, description, pin }: ListedTool, server: ServerView) {
  return {
    name: toolName(server.config.name, name),
    description,
    source: `mcp:${server.config.name}`,
    pin,
    unavailable: () => whyNot(name, pin, server),
  } as const;
}

function readTool(listed: ListedTool, server: ServerView): ReadTool {
  return {
    ...common(listed, server),
    kind: 'read',
    inputSchema: listed.inputSchema,
    async run(args, { signal }) {
      const why = whyNot(listed.name, listed.pin, server);
      return why === undefined ? await server.call(listed.name, args, signal) : refusal(why);
    },
  };
}

function changeTool(listed: ListedTool, server: ServerView, pinned: string | undefined): ChangeTool {
  const { name, pin } = listed;
  const { config } = server;
  const asking = askingIntent(listed.inputSchema);
  return {
    ...common(listed, server),
    kind: 'change',
    inputSchema: asking.schema,
    ...(pinned === undefined ? { gatedReason: unpinned(name, pin, config.name) } : {}),
    propose(given) {
      const why = whyNot(name, pin, server);
      if (why !== undefined) return Promise.resolve(refusal(why));
      const { intent, args } = asking.split(given);
      const shown = visibleJson(args);
      if (shown.length > mostShown)
        return Promise.resolve(
          refusal(`The arguments are longer than ${mostShown} characters, more than a person can approve.`),
        );
      const proposal: Proposal = {
        kind: 'tool_call',
        intent: oneLine(intent, mostIntent),
        summary: `call ${visibleJson(name)} of the MCP server '${config.name}' with ${shown}`,
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
      if (server.down !== undefined)
        throw new AgentError('unavailable', 'tool_unavailable', downText(server));
      const why = whyNot(staged.tool, staged.pin, server);
      if (why !== undefined)
        throw new AgentError(
          'conflict',
          'base_moved',
          `${why} Discard this change; it can be proposed again.`,
        );
      return await server.call(staged.tool, staged.arguments, signal);
    },
  };
}

/**
 * Why a tool cannot be called in the form that was seen; undefined when it can.
 * @param seen hash of the tool at that time
 */
function whyNot(name: string, seen: string, server: ServerView): string | undefined {
  const { config, listed, down } = server;
  const pinned = config.pins.get(name);
  const now = listed.get(name)?.pin;
  if (pinned !== undefined && now !== undefined && now !== pinned)
    return (
      `The MCP server '${config.name}' changed this tool after it was pinned: it was ${pinned} and is ${now}. ` +
      `Look at it with 'mcp show ${config.name}' and pin it again with 'mcp pins ${config.name}'.`
    );
  if (down !== undefined) return downText(server);
  if (now === undefined) return `The MCP server '${config.name}' has no tool '${name}' (any more).`;
  if (now !== seen)
    return `The MCP server '${config.name}' changed this tool in the meantime: it was ${seen} and is ${now}.`;
  return undefined;
}

const downText = ({ config, down }: ServerView): string =>
  `The MCP server '${config.name}' cannot be used at the moment: ${down}.`;

const unpinned = (name: string, pin: string, server: string): string =>
  `Not pinned, so its annotations are not trusted. Review it with 'mcp show ${server}'; to pin it, add ${JSON.stringify(name)} = "${pin}" to [mcp.${server}.pins].`;

const refusal = (output: string): ToolOutput => ({ ok: false, output, truncated: false });
