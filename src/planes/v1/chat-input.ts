import type { ChatInput, ChatTurn, Thinking } from '../../chat/index.ts';
import type { Violation } from '../../http/error.ts';
import type { Message } from '../../wires/chat/message-schema.ts';
import { tryParseJson } from '../../util/json.ts';
import type { ChatRequest } from '../../wires/chat/server-schema.ts';
import { findOutputViolations, toOutputConstraint } from './output.ts';
import type { ReasoningBody } from '../../wires/chat/reasoning-schema.ts';
import { toThinking } from '../turn/thinking.ts';
import { findToolViolations } from '../../wires/chat/tools-schema.ts';
import { toTools } from './tools.ts';

/** Returns the violations between the members of an otherwise valid body. */
export function findChatViolations(body: ChatRequest): Violation[] {
  const violations = [...findToolViolations(body), ...findOutputViolations(body)];
  if (typeof body.top_logprobs === 'number' && body.top_logprobs > 0 && !body.logprobs) {
    violations.push({ path: 'top_logprobs', message: 'needs `logprobs: true`' });
  }
  const member = findContinueMember(body);
  if (member === undefined) return violations;
  if (body.continue_final_message && body.add_generation_prompt) {
    violations.push({ path: member, message: 'cannot be combined with `add_generation_prompt: true`' });
  }
  if (body.messages.at(-1)?.role !== 'assistant') {
    violations.push({
      path: member,
      message: "the last message must be the assistant's, so that it can be continued",
    });
  }
  return violations;
}

function findContinueMember(body: ChatRequest): string | undefined {
  if (body.continue_final_message) return 'continue_final_message';
  return body.add_generation_prompt === false ? 'add_generation_prompt' : undefined;
}

export function toChatInput(body: ChatRequest): ChatInput {
  const output = toOutputConstraint(body);
  const thinking = readThinking(body);
  return {
    messages: toChatTurns(body.messages),
    ...toTools(body),
    ...(output ? { output: output.grammar } : {}),
    ...(thinking === undefined ? {} : { thinking }),
    ...(body.chat_template_kwargs ? { variables: body.chat_template_kwargs } : {}),
    ...(findContinueMember(body) === undefined ? {} : { continueLast: true }),
  };
}

/**
 * Converts OpenAI's messages to turns: the role developer becomes system, parts become text, and arguments are parsed.
 */
export const toChatTurns = (messages: readonly Message[]): ChatTurn[] => messages.map(toTurn);

function toTurn(message: Message): ChatTurn {
  // The parts of an assistant message are pieces of one text.
  const content = plainContent(message.content, message.role === 'assistant' ? '' : '\n');
  const name = message.name ? { name: message.name } : {};
  if (message.role === 'tool') {
    return {
      role: 'tool',
      content,
      ...name,
      ...(message.tool_call_id ? { callId: message.tool_call_id } : {}),
    };
  }
  if (message.role !== 'assistant') {
    return { role: message.role === 'developer' ? 'system' : message.role, content, ...name };
  }
  const toolCalls = (message.tool_calls ?? []).map((call) => ({
    id: call.id,
    name: call.function.name,
    arguments: parseArguments(call.function.arguments),
  }));
  const reasoning = message.reasoning_content ?? message.reasoning;
  return {
    role: 'assistant',
    content: content === '' ? (message.refusal ?? '') : content,
    ...name,
    ...(reasoning ? { reasoning } : {}),
    ...(toolCalls.length > 0 ? { toolCalls } : {}),
  };
}

type PlainPart = { readonly text: string } | { readonly refusal: string };

export function plainContent(
  content: string | readonly PlainPart[] | null | undefined,
  separator: string,
): string {
  if (typeof content === 'string') return content;
  return (content ?? []).map((part) => ('text' in part ? part.text : part.refusal)).join(separator);
}

/**
 * Parses arguments, because templates expect an object. Text that is not JSON, or is too deeply nested to walk, stays
 * text.
 */
export function parseArguments(text: string): unknown {
  if ((text.match(/[[{]/g) ?? []).length > 1000) return text;
  return tryParseJson(text, text);
}

/** Reads the reasoning setting; undefined where the request has none. */
export function readThinking(body: ReasoningBody): Thinking | undefined {
  const { reasoning_effort: effort, reasoning, thinking } = body;
  if (effort) return toThinking(effort);
  if (reasoning?.enabled === false) return false;
  if (reasoning?.effort) return toThinking(reasoning.effort);
  if (typeof reasoning?.max_tokens === 'number') return reasoning.max_tokens > 0;
  if (reasoning?.enabled) return true;
  if (thinking && thinking.type !== 'auto') return thinking.type === 'enabled';
  return body.enable_thinking ?? undefined;
}
