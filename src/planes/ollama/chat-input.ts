import type { ChatInput, ChatTurn, PastToolCall } from '../../chat/index.ts';
import { tryParseJson } from '../../util/json.ts';
import type { ModelDefaults } from '../model-store.ts';
import type { Violation } from '../../http/error.ts';
import { invalidBodyError } from '../../http/violations.ts';
import { refuseLargeTools, refuseDuplicateNames } from '../../wires/core/tool-checks.ts';
import type { ChatRequest, OllamaMessage } from '../../wires/ollama/chat-schema.ts';
import { toGrammar } from './options.ts';

/**
 * Converts an Ollama conversation; the model's default system text comes first where the conversation has none.
 */
export function toChatInput(body: ChatRequest, { system }: ModelDefaults): ChatInput {
  const messages = body.messages ?? [];
  const tools = (body.tools ?? []).map(({ function: { name, description, parameters } }) => ({
    name,
    ...(description ? { description } : {}),
    ...(parameters ? { parameters } : {}),
  }));
  const violations: Violation[] = [];
  refuseLargeTools(tools, violations);
  refuseDuplicateNames(tools, violations, (index) => `tools.${index}.function.name`);
  if (violations.length > 0) throw invalidBodyError(violations);
  const defaultSystem: ChatTurn[] =
    system && messages[0]?.role !== 'system' ? [{ role: 'system', content: system }] : [];
  const output = toGrammar(body.format);
  return {
    messages: [...defaultSystem, ...toTurns(messages)],
    ...(tools.length > 0 ? { tools } : {}),
    ...(output ? { output } : {}),
    ...(body.think === null || body.think === undefined ? {} : { thinking: body.think }),
  };
}

/**
 * Converts messages to turns. Past calls need ids, which this wire may omit; results then refer to calls by name or by
 * order.
 */
function toTurns(messages: readonly OllamaMessage[]): ChatTurn[] {
  let callCount = 0;
  let unansweredCalls: PastToolCall[] = [];
  return messages.map((message): ChatTurn => {
    const content = message.content ?? '';
    if (message.role === 'tool') {
      const name = message.tool_name ?? message.name;
      const callId = message.tool_call_id || findUnanswered(unansweredCalls, name)?.id;
      unansweredCalls = unansweredCalls.filter(({ id }) => id !== callId);
      return { role: 'tool', content, ...(callId ? { callId } : {}), ...(name ? { name } : {}) };
    }
    unansweredCalls = [];
    if (message.role !== 'assistant') return { role: message.role, content };
    const toolCalls = (message.tool_calls ?? []).map(
      ({ id, function: { name, arguments: rawArguments } }): PastToolCall => ({
        id: id || `call_${callCount++}`,
        name,
        arguments:
          typeof rawArguments === 'string' ? tryParseJson(rawArguments, rawArguments) : (rawArguments ?? {}),
      }),
    );
    unansweredCalls = toolCalls;
    return {
      role: 'assistant',
      content,
      ...(message.thinking ? { reasoning: message.thinking } : {}),
      ...(toolCalls.length > 0 ? { toolCalls } : {}),
    };
  });
}

/** The first call without a result, with the given name where there is one. */
const findUnanswered = (
  unansweredCalls: readonly PastToolCall[],
  name: string | null | undefined,
): PastToolCall | undefined =>
  name ? unansweredCalls.find((call) => call.name === name) : unansweredCalls[0];
