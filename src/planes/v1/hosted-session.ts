import { declinedMessage, type HostedTool, type HostedTools } from '../../agent/hosted-tools.ts';
import type { ToolDefinition } from '../../chat/index.ts';
import { HttpError, type Violation } from '../../http/error.ts';
import { invalidBodyError } from '../../http/violations.ts';
import type { HostedItem } from '../../wires/core/answer.ts';
import { createId } from '../../wires/responses/common-members.ts';
import type { InputItem } from '../../wires/responses/items-schema.ts';
import { isAllowed, type McpTool, needsApproval } from '../../wires/responses/mcp-schema.ts';
import type { ResponseRequest } from '../../wires/responses/server-schema.ts';
import { insufficientScopeError } from '../access.ts';

type ApprovalResponse = Extract<InputItem, { type: 'mcp_approval_response' }>;
type ApprovalRequest = Extract<InputItem, { type: 'mcp_approval_request' }>;
type CallItem = Extract<HostedItem, { type: 'mcp_call' }>;

interface OfferedTool extends HostedTool {
  readonly server: string;
  readonly needsApproval: boolean;
}

/** Who sent the request. */
export interface HostedCaller {
  readonly by: string;
  readonly scope?: readonly string[] | undefined;
  readonly signal: AbortSignal;
}

/** Prefix of the id of an approval request. What follows is the id of a pending change, or `r` and random digits. */
const requestPrefix = 'mcpr_';

/** MCP tools that a request offers the model, and the calls of its conversation. */
export class HostedSession {
  readonly #hostedTools: HostedTools;
  readonly #caller: HostedCaller;
  readonly #items: readonly InputItem[];
  readonly #offered: ReadonlyMap<string, OfferedTool>;
  /** Outputs of the calls that the request decides, by the id of the approval request. */
  readonly #outputs = new Map<string, string>();
  /** Tools of servers that the conversation has not listed before. */
  readonly listItems: readonly HostedItem[];

  private constructor(options: {
    readonly hostedTools: HostedTools;
    readonly caller: HostedCaller;
    readonly items: readonly InputItem[];
    readonly offered: readonly OfferedTool[];
    readonly listItems: readonly HostedItem[];
  }) {
    this.#hostedTools = options.hostedTools;
    this.#caller = options.caller;
    this.#items = options.items;
    this.#offered = new Map(options.offered.map((tool) => [tool.callName, tool]));
    this.listItems = options.listItems;
  }

  /**
   * Resolves the MCP tools of a request.
   * @param items of the conversation, those of the responses that it continues included
   * @returns undefined where the request has nothing to do with MCP servers
   * @throws HttpError 400 where a server is unknown, 403 where the token may not use it
   */
  static async open(
    tools: ResponseRequest['tools'],
    items: readonly InputItem[],
    { hostedTools, ...caller }: HostedCaller & { readonly hostedTools: HostedTools | undefined },
  ): Promise<HostedSession | undefined> {
    const servers = (tools ?? []).flatMap((tool, index) => (tool.type === 'mcp' ? [{ tool, index }] : []));
    if (servers.length === 0 && !items.some(({ type }) => type?.startsWith('mcp_') === true))
      return undefined;
    if (!hostedTools)
      throw new HttpError(400, 'unsupported', 'This host runs no MCP servers.', { param: 'tools' });
    requireScopes(
      servers.map(({ tool }) => tool),
      items,
      caller,
    );
    const violations: Violation[] = [];
    const listItems: HostedItem[] = [];
    const offered: OfferedTool[] = [];
    for (const { tool: spec, index } of servers) {
      const { server_label: server } = spec;
      const offer = await hostedTools.listTools(server);
      if (offer) {
        const allowed = offer.tools.filter(({ name }) => isAllowed(spec, name));
        offered.push(
          ...allowed.map((one) => ({ ...one, server, needsApproval: needsApproval(spec, one.name) })),
        );
        if (!items.some((item) => item.type === 'mcp_list_tools' && item.server_label === server))
          listItems.push(createListItem(server, allowed, offer.problem));
      } else {
        const { serverNames } = hostedTools;
        const known = serverNames.length > 0 ? `it has ${serverNames.join(', ')}` : 'it has none';
        const message = `this host has no MCP server '${server}'; ${known} ([mcp.NAME] of its configuration)`;
        violations.push({ path: `tools.${index}.server_label`, message });
      }
    }
    const labels = servers.map(({ tool }) => tool.server_label);
    for (const [index, label] of labels.entries())
      if (labels.indexOf(label) < index)
        violations.push({
          path: `tools.${servers[index]?.index ?? 0}.server_label`,
          message: `an earlier tool names '${label}', too`,
        });
    if (violations.length > 0) throw invalidBodyError(violations);
    return new HostedSession({ hostedTools, caller, items, offered, listItems });
  }

  /** The tools as the model sees them. */
  get definitions(): readonly ToolDefinition[] {
    return [...this.#offered.values()].map(({ callName: name, tool }) => ({
      name,
      ...(tool.description === '' ? {} : { description: tool.description }),
      parameters: tool.inputSchema,
    }));
  }

  isHosted(callName: string): boolean {
    return this.#offered.has(callName);
  }

  callName({ server_label, name }: { readonly server_label: string; readonly name: string }): string {
    return this.#hostedTools.callName(server_label, name);
  }

  /** The output of a call that this request approved or declined, for the model. */
  outputOf({ approval_request_id: id, approve, reason }: ApprovalResponse): string {
    return this.#outputs.get(id) ?? (approve ? '' : declinedMessage(reason ?? undefined));
  }

  /** Makes the calls that this request approves, unless the conversation has them already. */
  async decide(): Promise<readonly CallItem[]> {
    const answered = new Set(
      this.#items.flatMap((item) => (item.type === 'mcp_call' ? [item.approval_request_id] : [])),
    );
    const made: CallItem[] = [];
    for (const item of this.#items) {
      if (item.type !== 'mcp_approval_response' || answered.has(item.approval_request_id)) continue;
      const request = this.#items.find(
        (one): one is ApprovalRequest =>
          one.type === 'mcp_approval_request' && one.id === item.approval_request_id,
      );
      if (!request) continue;
      const { ok, output } = await this.#decideOne(request, item);
      this.#outputs.set(request.id, output);
      if (item.approve) made.push(createCallItem(request, { ok, output }, request.id));
    }
    return made;
  }

  async #decideOne(request: ApprovalRequest, { approve, reason }: ApprovalResponse) {
    const { by, signal } = this.#caller;
    const changeId = request.id.startsWith(requestPrefix) ? request.id.slice(requestPrefix.length) : '';
    if (/^p\d+$/.test(changeId))
      return await this.#hostedTools.decide(changeId, { approve, by, ...(reason ? { reason } : {}) }, signal);
    if (!approve) return { ok: false, output: declinedMessage(reason ?? undefined) };
    // A call that only reads is not staged: it may be made as often as its request is sent.
    const offered = this.#offered.get(this.callName(request));
    if (offered?.tool.kind !== 'read')
      return { ok: false, output: `${request.name} cannot be called now; propose the call again.` };
    return await this.#hostedTools.call(offered.tool, request.arguments, by, signal);
  }

  /**
   * Makes a call of the model, or asks whether it may be made.
   * @yields the item, when it begins and with its outcome
   * @returns the output for the model; undefined where the caller has to approve the call first
   */
  async *call(callName: string, text: string): AsyncGenerator<HostedItem, string | undefined, undefined> {
    const { by, signal } = this.#caller;
    const offered = this.#offered.get(callName) as OfferedTool;
    const { tool, server, name } = offered;
    const members = { server_label: server, name, arguments: text };
    if (offered.needsApproval) {
      const staged =
        tool.kind === 'read'
          ? { id: createId('r', true) }
          : await this.#hostedTools.stage(tool, text, signal);
      if (!('output' in staged)) {
        yield { id: `${requestPrefix}${staged.id}`, type: 'mcp_approval_request', ...members };
        return undefined;
      }
      yield createCallItem(members, staged, null);
      return staged.output;
    }
    const started = createCallItem(members, undefined, null);
    yield started;
    const { ok, output } = await this.#hostedTools.call(tool, text, by, signal);
    yield { ...started, ...outcomeOf({ ok, output }) };
    return output;
  }
}

/** Running the host's servers needs more than `infer`, and approving calls is what a person does. */
function requireScopes(
  servers: readonly McpTool[],
  items: readonly InputItem[],
  { scope }: HostedCaller,
): void {
  if (scope === undefined) return;
  const approves =
    items.some(({ type }) => type === 'mcp_approval_response') ||
    servers.some(({ require_approval: required }) =>
      typeof required === 'object' && required !== null
        ? (required.never?.tool_names ?? []).length > 0
        : required === 'never',
    );
  for (const required of [
    ...(servers.length > 0 ? ['agent' as const] : []),
    ...(approves ? ['approve' as const] : []),
  ])
    if (!scope.includes(required)) throw insufficientScopeError(scope, [required]);
}

const createListItem = (
  server: string,
  tools: readonly HostedTool[],
  problem: string | undefined,
): HostedItem => ({
  id: createId('mcpl', true),
  type: 'mcp_list_tools',
  server_label: server,
  tools: tools.map(({ name, tool }) => ({
    name,
    description: tool.description === '' ? null : tool.description,
    input_schema: tool.inputSchema,
    annotations: null,
  })),
  error: problem ?? null,
});

interface Outcome {
  readonly ok: boolean;
  readonly output: string;
}

const outcomeOf = ({ ok, output }: Outcome) =>
  ok
    ? ({ status: 'completed', output, error: null } as const)
    : ({
        status: 'failed',
        output: null,
        error: { type: 'mcp_tool_execution_error', content: [{ type: 'text', text: output }] },
      } as const);

const createCallItem = (
  { server_label, name, arguments: text }: Pick<CallItem, 'server_label' | 'name' | 'arguments'>,
  outcome: Outcome | undefined,
  requestId: string | null,
): CallItem => ({
  id: createId('mcp', true),
  type: 'mcp_call',
  server_label,
  name,
  arguments: text,
  ...(outcome ? outcomeOf(outcome) : { status: 'in_progress', output: null, error: null }),
  approval_request_id: requestId,
});
