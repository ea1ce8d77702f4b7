import { isRecord } from '../util/json.ts';
import { AgentError } from './errors.ts';
import type { McpServer } from './mcp/index.ts';
import { mcpToolName } from './mcp/index.ts';
import type { PendingChanges } from './pending/pending-changes.ts';
import type { ChangeTool, Tool, ToolContext, ToolOutput } from './tool.ts';
import { describeArgumentErrors, parseArguments, type ToolArguments } from './turns/tool-arguments.ts';
import { truncateOutput } from './turns/truncate-output.ts';

/** In place of an agent's name in the pending changes of a request. */
export const hostedAgentName = 'POST /v1/responses';

/** Changes that wait for a person, of all agents and requests together, beyond which requests stage none. */
const maxWaiting = 1000;

/** A tool of an MCP server, for a request to the resident model. */
export interface HostedTool {
  /** The server's own name. */
  readonly name: string;
  /** The name that the model calls. */
  readonly callName: string;
  readonly tool: Tool;
}

/** What a server offers now. */
interface OfferedTools {
  readonly tools: readonly HostedTool[];
  /** Why the server offers nothing. */
  readonly problem?: string;
}

interface HostedToolsOptions {
  readonly servers: readonly McpServer[];
  readonly changes: Pick<PendingChanges, 'stage' | 'approve' | 'discard' | 'get' | 'count'>;
}

/** The tools of the host's MCP servers, for requests that have the host run them. */
export class HostedTools {
  readonly #options: HostedToolsOptions;

  constructor(options: HostedToolsOptions) {
    this.#options = options;
  }

  get serverNames(): readonly string[] {
    return this.#options.servers.map(({ config }) => config.name);
  }

  /** The name that the model calls a tool by. */
  callName(server: string, name: string): string {
    return mcpToolName(server, name);
  }

  /** The tools of a server that can be called now; undefined where there is no such server. */
  async listTools(serverName: string): Promise<OfferedTools | undefined> {
    const server = this.#options.servers.find(({ config }) => config.name === serverName);
    if (!server) return undefined;
    await server.firstAttempt;
    const byName = new Map(server.tools().map((tool) => [tool.name, tool]));
    const listed = [...server.listedTools.keys()].flatMap((name) => {
      const callName = mcpToolName(serverName, name);
      const tool = byName.get(callName);
      return tool ? [{ name, callName, tool, reason: tool.unavailable?.() }] : [];
    });
    const tools = listed.filter(({ reason }) => reason === undefined);
    const problem = server.downReason ?? listed[0]?.reason;
    return tools.length > 0 || problem === undefined ? { tools } : { tools, problem };
  }

  /**
   * Calls a tool.
   * @param text of the arguments, JSON
   * @param by the caller, who approved the call beforehand
   */
  async call(tool: Tool, text: string, by: string, signal: AbortSignal): Promise<ToolOutput> {
    if (tool.kind === 'change') {
      const staged = await this.stage(tool, text, signal);
      if ('output' in staged) return staged;
      // A client that left in the meantime does not wait for this call, and no person was asked about it.
      if (signal.aborted)
        await this.decide(staged.id, { approve: false, by, reason: 'its client left' }, signal);
      signal.throwIfAborted();
      return await this.decide(staged.id, { approve: true, by }, signal);
    }
    const args = checkArguments(tool, text);
    return 'output' in args ? args.output : truncateOutput(await tool.run(args.values, contextOf(signal)));
  }

  /** Stages the call of a tool that changes something, for a person to decide. @returns the output where it cannot */
  async stage(
    tool: ChangeTool,
    text: string,
    signal: AbortSignal,
  ): Promise<{ readonly id: string } | ToolOutput> {
    const { changes } = this.#options;
    const args = checkArguments(tool, text);
    if ('output' in args) return args.output;
    if ((await changes.count()) >= maxWaiting)
      return failedOutput(`${maxWaiting} changes wait for a person already; this one was not proposed.`);
    const context = contextOf(signal);
    const proposal = await tool.propose(args.values, context);
    return 'output' in proposal ? proposal : await changes.stage(tool, proposal, context);
  }

  /** Decides a staged call. A call that was decided before is not made again. @returns its output */
  async decide(
    id: string,
    { approve, by, reason }: { readonly approve: boolean; readonly by: string; readonly reason?: string },
    signal: AbortSignal,
  ): Promise<ToolOutput> {
    const { changes } = this.#options;
    try {
      const { agent } = await changes.get(id);
      if (agent !== hostedAgentName) return failedOutput(`${id} is no call of this interface.`);
      if (approve) await changes.approve(id, by, signal);
      else await changes.discard(id, by, reason);
    } catch (error) {
      if (!(error instanceof AgentError)) throw error;
      const output = error.kind === 'conflict' ? (await changes.get(id)).output : undefined;
      return output ? truncateOutput(output) : failedOutput(error.message);
    }
    if (!approve) return failedOutput(declinedMessage(reason));
    const { output } = await changes.get(id);
    return output ? truncateOutput(output) : failedOutput(`${id} was applied without an output.`);
  }
}

function checkArguments(
  tool: Tool,
  text: string,
): { readonly values: ToolArguments } | { readonly output: ToolOutput } {
  const values = parseArguments(text);
  const errors = describeArgumentErrors(tool, values);
  return errors === undefined && isRecord(values) ? { values } : { output: failedOutput(errors ?? '') };
}

export const declinedMessage = (reason: string | undefined): string =>
  `The person declined this call${reason === undefined || reason === '' ? '' : `: ${reason}`}`;

/** The tools of MCP servers have no use for grants and folders. */
const contextOf = (signal: AbortSignal): ToolContext => ({
  agent: hostedAgentName,
  grants: { tools: [], read: [], write: [], network: [], auto_approve: [] },
  cwd: undefined,
  signal,
});

const failedOutput = (output: string): ToolOutput => ({ ok: false, output, truncated: false });
