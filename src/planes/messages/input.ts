import type { ChatInput, Thinking } from '../../chat/index.ts';
import { invalidBodyError } from '../../http/violations.ts';
import type { Violation } from '../../http/error.ts';
import { TurnBuilder } from '../turn/turn-builder.ts';
import { toThinking } from '../turn/thinking.ts';
import {
  refuseLargeTools,
  refuseNoTools,
  refuseDuplicateNames,
  refuseUnknownTool,
} from '../../wires/core/tool-checks.ts';
import type { AssistantBlock, Message, UserBlock } from '../../wires/messages/blocks-schema.ts';
import { toToolChoice, toTool } from '../../wires/messages/conversation.ts';
import type { CountRequest, MessageRequest } from '../../wires/messages/request-schema.ts';

/** Converts a request to a conversation. @throws HttpError 400 with every contradiction between its parts */
export function toChatInput(body: CountRequest & Partial<Pick<MessageRequest, 'max_tokens'>>): ChatInput {
  const violations: Violation[] = [];
  const turns = toTurns(body, violations);
  const tools = (body.tools ?? []).map(toTool);
  refuseLargeTools(tools, violations);
  refuseDuplicateNames(tools, violations);
  const { toolChoice = 'auto', parallelToolCalls = true } = toToolChoice(body.tool_choice) ?? {};
  if (toolChoice === 'required') refuseNoTools('tool_choice', tools, violations);
  if (typeof toolChoice === 'object')
    refuseUnknownTool('tool_choice.name', toolChoice.name, tools, violations);
  refuseTightBudget(body, violations);
  if (violations.length > 0) throw invalidBodyError(violations);
  const format = body.output_config?.format ?? body.output_format;
  const thinking = readThinking(body);
  return {
    ...turns,
    ...(tools.length > 0 ? { tools, toolChoice } : {}),
    ...(parallelToolCalls ? {} : { parallelToolCalls }),
    ...(format ? { output: { kind: 'json_schema', schema: format.schema } } : {}),
    ...(thinking === undefined ? {} : { thinking }),
  };
}

function toTurns(
  { system, messages }: CountRequest,
  violations: Violation[],
): Pick<ChatInput, 'messages' | 'continueLast'> {
  const builder = new TurnBuilder({ mergeUserMessages: true });
  if (system) builder.system(joinTexts(system));
  for (const [index, message] of messages.entries()) {
    for (const { path, message: reason } of addMessage(builder, message)) {
      violations.push({ path: `messages.${index}.${path}`, message: reason });
    }
  }
  const last = builder.turns.at(-1);
  if (last?.role !== 'assistant') return { messages: builder.turns };
  if (last.toolCalls) {
    const reason = 'ends in a tool_use block; the next message must be a user message with its tool_result';
    violations.push({ path: `messages.${messages.length - 1}`, message: reason });
  }
  // An empty message cannot be continued.
  if (last.content === '') return { messages: builder.turns.slice(0, -1) };
  return { messages: builder.turns, continueLast: true };
}

function addMessage(builder: TurnBuilder, { role, content }: Message): Violation[] {
  if (role === 'system') builder.system(joinTexts(content));
  else if (typeof content === 'string') builder[role](content);
  else if (role === 'assistant') addAnswer(builder, content);
  else return addUser(builder, content);
  return [];
}

/** Adds tool results first, as templates require, wherever they are in the message. */
function addUser(builder: TurnBuilder, blocks: readonly UserBlock[]): Violation[] {
  const violations: Violation[] = [];
  for (const [index, block] of blocks.entries()) {
    if (block.type !== 'tool_result') continue;
    const text = joinTexts(block.content ?? '');
    if (builder.result(block.tool_use_id, block.is_error ? `Error: ${text}` : text)) continue;
    const message = 'no earlier tool_use block has this id';
    violations.push({ path: `content.${index}.tool_use_id`, message });
  }
  const text = blocks.filter((block) => block.type === 'text');
  if (text.length > 0) builder.user(joinTexts(text));
  return violations;
}

function addAnswer(builder: TurnBuilder, blocks: readonly AssistantBlock[]): void {
  // The blocks are pieces of one text.
  const content = blocks.map((block) => (block.type === 'text' ? block.text : '')).join('');
  for (const block of blocks) if (block.type === 'thinking') builder.reasoning(block.thinking);
  builder.assistant(content);
  for (const block of blocks) {
    if (block.type !== 'tool_use') continue;
    builder.call({ id: block.id, name: block.name, arguments: block.input });
  }
}

const joinTexts = (content: string | readonly { readonly text: string }[]): string =>
  typeof content === 'string' ? content : content.map(({ text }) => text).join('\n');

function refuseTightBudget(
  { thinking, max_tokens: maxTokens }: Parameters<typeof toChatInput>[0],
  violations: Violation[],
): void {
  if (maxTokens === undefined || thinking?.type !== 'enabled' || thinking.budget_tokens < maxTokens) return;
  const message = `must be less than max_tokens (${maxTokens}), which also bounds the answer`;
  violations.push({ path: 'thinking.budget_tokens', message });
}

function readThinking({ thinking, output_config: config }: CountRequest): Thinking | undefined {
  if (thinking?.type === 'disabled') return false;
  return toThinking(config?.effort) ?? (thinking?.type === 'enabled' ? true : undefined);
}
