import { isRecord, type Json } from '../../util/json.ts';
import type { Effort } from '../core/types.ts';
import type {
  AnswerFormat,
  CacheBreakpoint,
  Conversation,
  Message,
  Part,
  Reasoning,
  Tool,
} from '../core/conversation.ts';
import { efforts } from '../core/effort.ts';
import type { ClientRequest } from '../core/wire.ts';
import { BlockReader, toCacheBreakpoint } from './blocks.ts';
import { findAnswerFormat } from './facts.ts';
import { parseExact } from '../core/json.ts';
import { Violations } from '../core/violations.ts';
import { choiceError } from './request-schema.ts';
import { isRunByCaller, toList } from './unpriced.ts';

/** Converts a messages request to a provider-neutral conversation. @throws WireError 400 with all violations */
export function readConversation({ text, facts }: Pick<ClientRequest, 'text' | 'facts'>): Conversation {
  // Parsed again, so that long numbers in calls are preserved.
  const body = parseExact(text) as Json;
  const violations = new Violations();
  const blocks = new BlockReader(violations);
  const messages = readMessages(body, blocks);
  const tools = toList(body.tools).flatMap((tool, n) => readTool(tool, `tools.${n}`, violations));
  const toolChoice = toToolChoice(body.tool_choice);
  if (!toolChoice) violations.add('tool_choice', choiceError);
  const reasoning = readReasoning(body);
  const { temperature, top_p: topP, top_k: topK, stop_sequences: stop, metadata } = body;
  violations.throwIfAny();
  return {
    messages: markLast(messages, toCacheBreakpoint(body)),
    tools,
    ...toolChoice,
    ...(facts.maxTokens === undefined ? {} : { maxTokens: facts.maxTokens }),
    ...(typeof temperature === 'number' ? { temperature } : {}),
    ...(typeof topP === 'number' ? { topP } : {}),
    ...(typeof topK === 'number' ? { topK } : {}),
    stop: toList(stop).filter((sequence) => typeof sequence === 'string'),
    ...(reasoning ? { reasoning } : {}),
    format: readAnswerFormat(body),
    ...(isRecord(metadata) && typeof metadata.user_id === 'string' ? { user: metadata.user_id } : {}),
  };
}

function readMessages(body: Json, blocks: BlockReader): Message[] {
  const messages: Message[] = [];
  const add = (role: Message['role'], parts: readonly Part[]) => {
    if (parts.length > 0) messages.push({ role, parts });
  };
  if (body.system !== undefined && body.system !== null) add('system', blocks.read(body.system, 'system'));
  toList(body.messages).forEach((message, n) => {
    const path = `messages.${n}`;
    const { role, content } = message as Json;
    if (role !== 'user' && role !== 'assistant' && role !== 'system') {
      blocks.violations.add(`${path}.role`, "expected 'user', 'assistant' or 'system'");
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

function readTool(tool: unknown, path: string, violations: Violations): Tool[] {
  if (!isRecord(tool) || typeof tool.name !== 'string') {
    violations.add(path, 'expected a tool such as {name, input_schema}');
    return [];
  }
  const { type, name, input_schema: schema } = tool;
  if (isRecord(schema)) return [toTool({ ...tool, name, input_schema: schema })];
  if (typeof type === 'string' && type !== 'custom' && isRunByCaller(tool))
    violations.addUnsupported(
      `${path}.type`,
      `this model has no built-in tool of type '${type}'; define it with an input_schema`,
    );
  else violations.add(`${path}.input_schema`, 'expected a JSON schema of an object');
  return [];
}

export const toTool = (tool: Json & { readonly name: string; readonly input_schema: Json }): Tool => ({
  name: tool.name,
  ...(typeof tool.description === 'string' && tool.description !== ''
    ? { description: tool.description }
    : {}),
  parameters: tool.input_schema,
  ...(typeof tool.strict === 'boolean' ? { strict: tool.strict } : {}),
  ...toCacheBreakpoint(tool),
});

/** Converts a tool choice; undefined where it is invalid. */
export function toToolChoice(
  choice: unknown,
): Pick<Conversation, 'toolChoice' | 'parallelToolCalls'> | undefined {
  if (choice === undefined || choice === null) return {};
  if (!isRecord(choice)) return undefined;
  const { type, name, disable_parallel_tool_use: disableParallel } = choice;
  const parallelMember = typeof disableParallel === 'boolean' ? { parallelToolCalls: !disableParallel } : {};
  if (type === 'auto' || type === 'none') return { toolChoice: type, ...parallelMember };
  if (type === 'any') return { toolChoice: 'required', ...parallelMember };
  return type === 'tool' && typeof name === 'string'
    ? { toolChoice: { name }, ...parallelMember }
    : undefined;
}

function readReasoning({ thinking, output_config: config }: Json): Reasoning | undefined {
  const requestedEffort = isRecord(config) ? config.effort : undefined;
  const effort = efforts.find((level): level is Effort => level === requestedEffort);
  if (isRecord(thinking)) {
    if (thinking.type === 'disabled') return { effort: 'none' };
    if (thinking.type === 'enabled' && typeof thinking.budget_tokens === 'number')
      return { maxTokens: thinking.budget_tokens, ...(effort === undefined ? {} : { effort }) };
    // Adaptive: the model decides how much to think.
    return { effort: effort ?? 'high' };
  }
  return effort === undefined ? undefined : { effort };
}

function readAnswerFormat(body: Json): AnswerFormat {
  const format = findAnswerFormat(body)?.value;
  return isRecord(format?.schema)
    ? { type: 'schema', name: 'answer', schema: format.schema, strict: true }
    : { type: 'text' };
}

/** Applies a cache breakpoint of the whole request to the last part that can have one. */
function markLast(
  messages: readonly Message[],
  breakpoint: { readonly cache?: CacheBreakpoint },
): readonly Message[] {
  const last = messages.at(-1);
  const part = last?.parts.at(-1);
  if (!breakpoint.cache || !last || !part) return messages;
  if (part.type === 'reasoning' || part.type === 'encrypted_reasoning' || part.type === 'refusal')
    return messages;
  return [
    ...messages.slice(0, -1),
    { ...last, parts: [...last.parts.slice(0, -1), { ...part, ...breakpoint }] },
  ];
}
