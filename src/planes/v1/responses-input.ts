import type { ChatInput } from '../../chat/index.ts';
import type { GrammarSource } from '../../grammar/types.ts';
import { invalidBodyError } from '../../http/violations.ts';
import type { Violation } from '../../http/error.ts';
import { isRecord } from '../../util/json.ts';
import { TurnBuilder } from '../turn/turn-builder.ts';
import { toThinking } from '../turn/thinking.ts';
import { refuseLargeTools, refuseDuplicateNames } from '../../wires/core/tool-checks.ts';
import { parseArguments, plainContent } from './chat-input.ts';
import type { HostedSession } from './hosted-session.ts';
import { toCustomTool } from './custom-tool.ts';
import { toTool } from './tools.ts';
import { decodeSummary } from '../../wires/responses/encrypted-content.ts';
import type { InputItem } from '../../wires/responses/items-schema.ts';
import type { TextFormat, TokenCountRequest } from '../../wires/responses/server-schema.ts';
import { selectTools } from '../../wires/responses/tools-schema.ts';

/** A request as a conversation, and the builder that holds its turns. */
interface ReadRequest {
  readonly input: ChatInput;
  readonly builder: TurnBuilder;
}

/** The items of a conversation. */
export interface ConversationItems {
  /** Items of the responses that the request continues, the oldest first. */
  readonly earlier: readonly InputItem[];
  /** Items of the request itself. */
  readonly own: readonly InputItem[];
}

/** The items of a request; a text is the message of a user. */
export const ownItems = ({ input }: Pick<TokenCountRequest, 'input'>): readonly InputItem[] =>
  typeof input === 'string' ? [{ type: 'message', role: 'user', content: input }] : (input ?? []);

/**
 * Converts a request to a conversation.
 * @param items of the conversation: those of the responses that it continues, then its own
 * @param session where the request has to do with MCP servers of the host
 * @throws HttpError 400 with every contradiction between its parts
 */
export function readRequest(
  body: Omit<TokenCountRequest, 'input'>,
  items: ConversationItems,
  session: HostedSession | undefined,
): ReadRequest {
  const violations: Violation[] = [];
  const builder = addItems(body.instructions, items, { session, violations });
  const own = (body.tools ?? []).flatMap((tool, index) => {
    if (tool.type === 'custom') return [toCustomTool(tool, `tools.${index}`, violations)];
    return tool.type === 'function' ? [toTool(tool)] : [];
  });
  const offered = [...own, ...(session?.definitions ?? [])];
  refuseLargeTools(offered, violations);
  refuseDuplicateNames(offered, violations);
  const { tools, toolChoice } = selectTools(offered, body.tool_choice ?? 'auto', violations);
  if (violations.length > 0) throw invalidBodyError(violations);
  const output = toGrammar(body.text?.format);
  const thinking = toThinking(body.reasoning?.effort);
  const input: ChatInput = {
    messages: builder.turns,
    ...(tools.length > 0 ? { tools, toolChoice } : {}),
    ...(body.parallel_tool_calls === false ? { parallelToolCalls: false } : {}),
    ...(output ? { output } : {}),
    ...(thinking === undefined ? {} : { thinking }),
  };
  return { input, builder };
}

function addItems(
  instructions: string | null | undefined,
  { earlier, own }: ConversationItems,
  { session, violations }: { readonly session: HostedSession | undefined; readonly violations: Violation[] },
): TurnBuilder {
  const builder = new TurnBuilder();
  if (instructions) builder.system(instructions);
  const items = [...earlier, ...own];
  for (const [index, item] of items.entries()) {
    const path = `input.${index - earlier.length}`;
    if (session && isMcpItem(item)) {
      if (!addMcpItem(builder, item, { session, items }))
        violations.push({
          path: `${path}.approval_request_id`,
          message: 'no earlier mcp_approval_request has this id; send it with its response',
        });
    } else if (!isMcpItem(item) && !addItem(builder, item))
      violations.push({
        path: `${path}.call_id`,
        message: `no earlier ${item.type === 'custom_tool_call_output' ? 'custom_tool_call' : 'function_call'} has this call_id; send the call with its output`,
      });
  }
  return builder;
}

type McpItem = Extract<InputItem, { type: `mcp_${string}` }>;
const isMcpItem = (item: InputItem): item is McpItem => item.type?.startsWith('mcp_') === true;

/** @returns false where a decision has no preceding request */
function addMcpItem(
  builder: TurnBuilder,
  item: McpItem,
  { session, items }: { readonly session: HostedSession; readonly items: readonly InputItem[] },
): boolean {
  if (item.type === 'mcp_list_tools') return true;
  if (item.type === 'mcp_approval_response') {
    const { approval_request_id: requestId, approve } = item;
    // The output of an approved call is in its own item, once the call was made.
    const isMade = items.some((one) => one.type === 'mcp_call' && one.approval_request_id === requestId);
    return (approve && isMade) || builder.result(requestId, session.outputOf(item));
  }
  const { id, arguments: text } = item;
  const call = { id, name: session.callName(item), arguments: parseArguments(text) };
  if (item.type === 'mcp_approval_request') builder.call(call);
  else {
    const output = item.output ?? errorTextOf(item.error?.content);
    if (item.approval_request_id && builder.result(item.approval_request_id, output)) return true;
    builder.call(call);
    builder.result(id, output);
  }
  return true;
}

const errorTextOf = (content: unknown): string =>
  (Array.isArray(content) ? content : [])
    .map((part: unknown) => (isRecord(part) && typeof part['text'] === 'string' ? part['text'] : ''))
    .join('\n');

/** @returns false where an output has no preceding call */
function addItem(builder: TurnBuilder, item: Exclude<InputItem, McpItem>): boolean {
  if (item.type === 'function_call') {
    const { call_id: id, name } = item;
    builder.call({ id, name, arguments: parseArguments(item.arguments) });
  } else if (item.type === 'custom_tool_call') {
    const { call_id: id, name, input } = item;
    builder.call({ id, name, arguments: { input } });
  } else if (item.type === 'function_call_output' || item.type === 'custom_tool_call_output') {
    return builder.result(item.call_id, plainContent(item.output, '\n'));
  } else if (item.type === 'compaction') {
    builder.system(`Summary of the conversation so far:\n${decodeSummary(item.encrypted_content) ?? ''}`);
  } else if (item.type === 'reasoning') {
    const reasoningText = plainContent(item.content, '\n');
    builder.reasoning(reasoningText === '' ? plainContent(item.summary, '\n') : reasoningText);
  } else if (item.role === 'assistant') {
    // The parts are pieces of one text.
    builder.assistant(plainContent(item.content, ''));
  } else {
    const text = plainContent(item.content, '\n');
    if (item.role === 'user') builder.user(text);
    else builder.system(text);
  }
  return true;
}

function toGrammar(format: TextFormat | null | undefined): GrammarSource | undefined {
  if (format?.type === 'json_object') return { kind: 'json' };
  if (format?.type === 'json_schema') return { kind: 'json_schema', schema: format.schema };
  return undefined;
}
