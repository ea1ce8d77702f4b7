import { isRecord, type Json } from '../../util/json.ts';
import type { Effort } from '../core/types.ts';
import type {
  AnswerFormat,
  CacheMark,
  Conversation,
  Message,
  Part,
  Reasoning,
  Tool,
} from '../core/conversation.ts';
import { efforts } from '../core/effort.ts';
import type { ClientRequest } from '../core/wire.ts';
import { BlockReader, cacheOf } from './blocks.ts';
import { formatOf } from './facts.ts';
import { parseExact } from '../core/json.ts';
import { Violations } from '../core/violations.ts';
import { choiceForm } from './request-schema.ts';
import { isRunByCaller, listOf } from './unpriced.ts';

/** Converts a messages request to a provider-neutral conversation. @throws WireError 400 with all violations */
export function conversationOf({ text, facts }: Pick<ClientRequest, 'text' | 'facts'>): Conversation {
  // Parsed again, so that long numbers in calls are preserved.
  const body = parseExact(text) as Json;
  const faults = new Violations();
  const blocks = new BlockReader(faults);
  const messages = messagesOf(body, blocks);
  const tools = listOf(body.tools).flatMap((tool, n) => readTool(tool, `tools.${n}`, faults));
  const choice = choiceOf(body.tool_choice);
  if (!choice) faults.add('tool_choice', choiceForm);
  const reasoning = reasoningOf(body);
  const { temperature, top_p: topP, top_k: topK, stop_sequences: stop, metadata } = body;
  faults.throwAny();
  return {
    messages: markLast(messages, cacheOf(body)),
    tools,
    ...choice,
    ...(facts.maxTokens === undefined ? {} : { maxTokens: facts.maxTokens }),
    ...(typeof temperature === 'number' ? { temperature } : {}),
    ...(typeof topP === 'number' ? { topP } : {}),
    ...(typeof topK === 'number' ? { topK } : {}),
    stop: listOf(stop).filter((sequence) => typeof sequence === 'string'),
    ...(reasoning ? { reasoning } : {}),
    format: answerFormatOf(body),
    ...(isRecord(metadata) && typeof metadata.user_id === 'string' ? { user: metadata.user_id } : {}),
  };
}

function messagesOf(body: Json, blocks: BlockReader): Message[] {
  const messages: Message[] = [];
  const add = (role: Message['role'], parts: readonly Part[]) => {
    if (parts.length > 0) messages.push({ role, parts });
  };
  if (body.system !== undefined && body.system !== null) add('system', blocks.read(body.system, 'system'));
  listOf(body.messages).forEach((message, n) => {
    const path = `messages.${n}`;
    const { role, content } = message as Json;
    if (role !== 'user' && role !== 'assistant' && role !== 'system') {
      blocks.faults.add(`${path}.role`, "expected 'user', 'assistant' or 'system'");
      return;
    }
    const parts = blocks.read(content, `${path}.content`);
    if (role !== 'user') {
      add(role, parts);
      return;
    }
    add(
      'tool',
      parts.filter(({ type }) => type === 'tool_result'),
    );
    add(
      'user',
      parts.filter(({ type }) => type !== 'tool_result'),
    );
  });
  return messages;
}

function readTool(tool: unknown, path: string, faults: Violations): Tool[] {
  if (!isRecord(tool) || typeof tool.name !== 'string') {
    faults.add(path, 'expected a tool such as {name, input_schema}');
    return [];
  }
  const { type, name, input_schema: schema } = tool;
  if (isRecord(schema)) return [toolOf({ ...tool, name, input_schema: schema })];
  if (typeof type === 'string' && type !== 'custom' && isRunByCaller(tool))
    faults.refuse(
      `${path}.type`,
      `this model has no built-in tool of type '${type}'; define it with an input_schema`,
    );
  else faults.add(`${path}.input_schema`, 'expected a JSON schema of an object');
  return [];
}

export const toolOf = (tool: Json & { readonly name: string; readonly input_schema: Json }): Tool => ({
  name: tool.name,
  ...(typeof tool.description === 'string' && tool.description !== ''
    ? { description: tool.description }
    : {}),
  parameters: tool.input_schema,
  ...(typeof tool.strict === 'boolean' ? { strict: tool.strict } : {}),
  ...cacheOf(tool),
});

/** Converts a tool choice; undefined where it is invalid. */
export function choiceOf(
  choice: unknown,
): Pick<Conversation, 'toolChoice' | 'parallelToolCalls'> | undefined {
  if (choice === undefined || choice === null) return {};
  if (!isRecord(choice)) return undefined;
  const { type, name, disable_parallel_tool_use: isAlone } = choice;
  const alone = typeof isAlone === 'boolean' ? { parallelToolCalls: !isAlone } : {};
  if (type === 'auto' || type === 'none') return { toolChoice: type, ...alone };
  if (type === 'any') return { toolChoice: 'required', ...alone };
  return type === 'tool' && typeof name === 'string' ? { toolChoice: { name }, ...alone } : undefined;
}

function reasoningOf({ thinking, output_config: config }: Json): Reasoning | undefined {
  const wanted = isRecord(config) ? config.effort : undefined;
  const effort = efforts.find((level): level is Effort => level === wanted);
  if (isRecord(thinking)) {
    if (thinking.type === 'disabled') return { effort: 'none' };
    if (thinking.type === 'enabled' && typeof thinking.budget_tokens === 'number')
      return { maxTokens: thinking.budget_tokens, ...(effort === undefined ? {} : { effort }) };
    // Adaptive: the model decides how much to think.
    return { effort: effort ?? 'high' };
  }
  return effort === undefined ? undefined : { effort };
}

function answerFormatOf(body: Json): AnswerFormat {
  const format = formatOf(body)?.value;
  return isRecord(format?.schema)
    ? { type: 'schema', name: 'answer', schema: format.schema, strict: true }
    : { type: 'text' };
}

/** Applies a cache breakpoint of the whole request to the last part that can have one. */
function markLast(messages: readonly Message[], mark: { readonly cache?: CacheMark }): readonly Message[] {
  const last = messages.at(-1);
  const part = last?.parts.at(-1);
  if (!mark.cache || !last || !part) return messages;
  if (part.type === 'reasoning' || part.type === 'sealed_reasoning' || part.type === 'refusal')
    return messages;
  return [...messages.slice(0, -1), { ...last, parts: [...last.parts.slice(0, -1), { ...part, ...mark }] }];
}
