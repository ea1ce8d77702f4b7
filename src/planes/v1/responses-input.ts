import type { ChatInput, ChatTurn } from '../../chat/index.ts';
import type { GrammarSource } from '../../grammar/types.ts';
import { invalidBody } from '../../http/violations.ts';
import type { Violation } from '../../http/error.ts';
import { Conversation } from '../turn/conversation.ts';
import { toThinking } from '../turn/thinking.ts';
import { refuseLarge, refuseTwins } from '../../wires/core/tool-checks.ts';
import { parsedArguments, plainContent } from './chat-input.ts';
import { toTool } from './tools.ts';
import type { InputItem } from '../../wires/responses/items-schema.ts';
import type { ResponseRequest, TextFormat } from '../../wires/responses/server-schema.ts';
import { chosen } from '../../wires/responses/tools-schema.ts';

/** Converts a request to a conversation. @throws HttpError 400 with every contradiction between its parts */
export function toChatInput(body: ResponseRequest): ChatInput {
  const violations: Violation[] = [];
  const messages = toTurns(body, violations);
  refuseLarge(body.tools ?? [], violations);
  refuseTwins(body.tools ?? [], violations);
  const { tools, toolChoice } = chosen(
    (body.tools ?? []).map(toTool),
    body.tool_choice ?? 'auto',
    violations,
  );
  if (violations.length > 0) throw invalidBody(violations);
  const output = toGrammar(body.text?.format);
  const thinking = toThinking(body.reasoning?.effort);
  return {
    messages,
    ...(tools.length > 0 ? { tools, toolChoice } : {}),
    ...(body.parallel_tool_calls === false ? { parallelToolCalls: false } : {}),
    ...(output ? { output } : {}),
    ...(thinking === undefined ? {} : { thinking }),
  };
}

function toTurns({ instructions, input }: ResponseRequest, violations: Violation[]): readonly ChatTurn[] {
  const conversation = new Conversation();
  if (instructions) conversation.system(instructions);
  if (typeof input === 'string') {
    conversation.user(input);
    return conversation.turns;
  }
  for (const [index, item] of input.entries()) {
    if (addItem(conversation, item)) continue;
    violations.push({
      path: `input.${index}.call_id`,
      message:
        'no earlier function_call has this call_id; this host stores no responses, so send the call with its output',
    });
  }
  return conversation.turns;
}

/** @returns false where an output has no preceding call */
function addItem(conversation: Conversation, item: InputItem): boolean {
  if (item.type === 'function_call') {
    const { call_id: id, name } = item;
    conversation.call({ id, name, arguments: parsedArguments(item.arguments) });
  } else if (item.type === 'function_call_output') {
    return conversation.result(item.call_id, plainContent(item.output, '\n'));
  } else if (item.type === 'reasoning') {
    const trace = plainContent(item.content, '\n');
    conversation.thought(trace === '' ? plainContent(item.summary, '\n') : trace);
  } else if (item.role === 'assistant') {
    // The parts are pieces of one text.
    conversation.assistant(plainContent(item.content, ''));
  } else {
    const said = plainContent(item.content, '\n');
    if (item.role === 'user') conversation.user(said);
    else conversation.system(said);
  }
  return true;
}

function toGrammar(format: TextFormat | null | undefined): GrammarSource | undefined {
  if (format?.type === 'json_object') return { kind: 'json' };
  if (format?.type === 'json_schema') return { kind: 'json_schema', schema: format.schema };
  return undefined;
}
