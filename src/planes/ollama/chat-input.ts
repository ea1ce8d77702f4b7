import type { ChatInput, ChatTurn, PastCall } from '../../chat/index.ts';
import { parsedJson } from '../../util/json.ts';
import type { ModelDefaults } from '../model-store.ts';
import type { Violation } from '../../http/error.ts';
import { invalidBody } from '../../http/violations.ts';
import { refuseLarge, refuseTwins } from '../../wires/core/tool-checks.ts';
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
  const wrong: Violation[] = [];
  refuseLarge(tools, wrong);
  refuseTwins(tools, wrong, (index) => `tools.${index}.function.name`);
  if (wrong.length > 0) throw invalidBody(wrong);
  const own: ChatTurn[] =
    system && messages[0]?.role !== 'system' ? [{ role: 'system', content: system }] : [];
  const output = toGrammar(body.format);
  return {
    messages: [...own, ...toTurns(messages)],
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
  let calls = 0;
  let open: PastCall[] = [];
  return messages.map((message): ChatTurn => {
    const content = message.content ?? '';
    if (message.role === 'tool') {
      const name = message.tool_name ?? message.name;
      const callId = message.tool_call_id || answered(open, name)?.id;
      open = open.filter(({ id }) => id !== callId);
      return { role: 'tool', content, ...(callId ? { callId } : {}), ...(name ? { name } : {}) };
    }
    open = [];
    if (message.role !== 'assistant') return { role: message.role, content };
    const toolCalls = (message.tool_calls ?? []).map(
      ({ id, function: { name, arguments: given } }): PastCall => ({
        id: id || `call_${calls++}`,
        name,
        arguments: typeof given === 'string' ? parsedJson(given, given) : (given ?? {}),
      }),
    );
    open = toolCalls;
    return {
      role: 'assistant',
      content,
      ...(message.thinking ? { reasoning: message.thinking } : {}),
      ...(toolCalls.length > 0 ? { toolCalls } : {}),
    };
  });
}

/** The first call without a result, with the given name where there is one. */
const answered = (open: readonly PastCall[], name: string | null | undefined): PastCall | undefined =>
  name ? open.find((call) => call.name === name) : open[0];
