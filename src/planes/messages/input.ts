import type { ChatInput, Thinking } from '../../chat/index.ts';
import { invalidBody } from '../../http/violations.ts';
import type { Violation } from '../../http/error.ts';
import { Conversation } from '../turn/conversation.ts';
import { toThinking } from '../turn/thinking.ts';
import { refuseLarge, refuseNoTools, refuseTwins, refuseUnknown } from '../../wires/core/tool-checks.ts';
import type { AssistantBlock, Message, UserBlock } from '../../wires/messages/blocks-schema.ts';
import { choiceOf, toolOf } from '../../wires/messages/conversation.ts';
import type { CountRequest, MessageRequest } from '../../wires/messages/request-schema.ts';

/** Converts a request to a conversation. @throws HttpError 400 with every contradiction between its parts */
export function toChatInput(body: CountRequest & Partial<Pick<MessageRequest, 'max_tokens'>>): ChatInput {
  const violations: Violation[] = [];
  const turns = toTurns(body, violations);
  const tools = (body.tools ?? []).map(toolOf);
  refuseLarge(tools, violations);
  refuseTwins(tools, violations);
  const { toolChoice = 'auto', parallelToolCalls = true } = choiceOf(body.tool_choice) ?? {};
  if (toolChoice === 'required') refuseNoTools('tool_choice', tools, violations);
  if (typeof toolChoice === 'object') refuseUnknown('tool_choice.name', toolChoice.name, tools, violations);
  refuseTightBudget(body, violations);
  if (violations.length > 0) throw invalidBody(violations);
  const format = body.output_config?.format ?? body.output_format;
  const thinking = thinkingOf(body);
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
  const conversation = new Conversation({ joinUsers: true });
  if (system) conversation.system(joined(system));
  for (const [index, message] of messages.entries()) {
    for (const { path, message: why } of addMessage(conversation, message)) {
      violations.push({ path: `messages.${index}.${path}`, message: why });
    }
  }
  const last = conversation.turns.at(-1);
  if (last?.role !== 'assistant') return { messages: conversation.turns };
  if (last.toolCalls) {
    const why = 'ends in a tool_use block; the next message must be a user message with its tool_result';
    violations.push({ path: `messages.${messages.length - 1}`, message: why });
  }
  // An empty message cannot be continued.
  if (last.content === '') return { messages: conversation.turns.slice(0, -1) };
  return { messages: conversation.turns, continueLast: true };
}

function addMessage(conversation: Conversation, { role, content }: Message): Violation[] {
  if (role === 'system') conversation.system(joined(content));
  else if (typeof content === 'string') conversation[role](content);
  else if (role === 'assistant') addAnswer(conversation, content);
  else return addUser(conversation, content);
  return [];
}

/** Adds tool results first, as templates require, wherever they are in the message. */
function addUser(conversation: Conversation, blocks: readonly UserBlock[]): Violation[] {
  const wrong: Violation[] = [];
  for (const [index, block] of blocks.entries()) {
    if (block.type !== 'tool_result') continue;
    const said = joined(block.content ?? '');
    if (conversation.result(block.tool_use_id, block.is_error ? `Error: ${said}` : said)) continue;
    const message = 'no earlier tool_use block has this id';
    wrong.push({ path: `content.${index}.tool_use_id`, message });
  }
  const said = blocks.filter((block) => block.type === 'text');
  if (said.length > 0) conversation.user(joined(said));
  return wrong;
}

function addAnswer(conversation: Conversation, blocks: readonly AssistantBlock[]): void {
  // The blocks are pieces of one text.
  const content = blocks.map((block) => (block.type === 'text' ? block.text : '')).join('');
  for (const block of blocks) if (block.type === 'thinking') conversation.thought(block.thinking);
  conversation.assistant(content);
  for (const block of blocks) {
    if (block.type !== 'tool_use') continue;
    conversation.call({ id: block.id, name: block.name, arguments: block.input });
  }
}

const joined = (content: string | readonly { readonly text: string }[]): string =>
  typeof content === 'string' ? content : content.map(({ text }) => text).join('\n');

function refuseTightBudget(
  { thinking, max_tokens: most }: Parameters<typeof toChatInput>[0],
  violations: Violation[],
): void {
  if (most === undefined || thinking?.type !== 'enabled' || thinking.budget_tokens < most) return;
  const message = `must be less than max_tokens (${most}), which also bounds the answer`;
  violations.push({ path: 'thinking.budget_tokens', message });
}

function thinkingOf({ thinking, output_config: config }: CountRequest): Thinking | undefined {
  if (thinking?.type === 'disabled') return false;
  return toThinking(config?.effort) ?? (thinking?.type === 'enabled' ? true : undefined);
}
