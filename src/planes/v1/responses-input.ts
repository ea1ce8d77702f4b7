import type { ChatInput, ChatTurn } from '../../chat/index.ts';
import type { GrammarSource } from '../../grammar/types.ts';
import { invalidBodyError } from '../../http/violations.ts';
import type { Violation } from '../../http/error.ts';
import { TurnBuilder } from '../turn/turn-builder.ts';
import { toThinking } from '../turn/thinking.ts';
import { refuseLargeTools, refuseDuplicateNames } from '../../wires/core/tool-checks.ts';
import { parseArguments, plainContent } from './chat-input.ts';
import { toTool } from './tools.ts';
import type { InputItem } from '../../wires/responses/items-schema.ts';
import type { ResponseRequest, TextFormat } from '../../wires/responses/server-schema.ts';
import { selectTools } from '../../wires/responses/tools-schema.ts';

/** Converts a request to a conversation. @throws HttpError 400 with every contradiction between its parts */
export function toChatInput(body: ResponseRequest): ChatInput {
  const violations: Violation[] = [];
  const messages = toTurns(body, violations);
  refuseLargeTools(body.tools ?? [], violations);
  refuseDuplicateNames(body.tools ?? [], violations);
  const { tools, toolChoice } = selectTools(
    (body.tools ?? []).map(toTool),
    body.tool_choice ?? 'auto',
    violations,
  );
  if (violations.length > 0) throw invalidBodyError(violations);
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
  const builder = new TurnBuilder();
  if (instructions) builder.system(instructions);
  if (typeof input === 'string') {
    builder.user(input);
    return builder.turns;
  }
  for (const [index, item] of input.entries()) {
    if (addItem(builder, item)) continue;
    violations.push({
      path: `input.${index}.call_id`,
      message:
        'no earlier function_call has this call_id; this host stores no responses, so send the call with its output',
    });
  }
  return builder.turns;
}

/** @returns false where an output has no preceding call */
function addItem(builder: TurnBuilder, item: InputItem): boolean {
  if (item.type === 'function_call') {
    const { call_id: id, name } = item;
    builder.call({ id, name, arguments: parseArguments(item.arguments) });
  } else if (item.type === 'function_call_output') {
    return builder.result(item.call_id, plainContent(item.output, '\n'));
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
