import type { ChatMessage } from '../engine/index.ts';
import { isRecord } from '../util/json.ts';
import { ShortCallIds } from './call-ids.ts';
import { toSpacedJson } from './json-text.ts';
import { describeTools, formatToolResult } from './describe-tools.ts';
import type { CallMessageShape } from './template/probe.ts';
import { type TemplateCapabilities, toTemplateTools } from './template/capabilities.ts';
import { splitReasoning } from './template/reasoning.ts';
import { readsVariable, requiredVariables, thinkingVariables } from './template/thinking.ts';
import { arrangeSystemMessages } from './system-messages.ts';
import type { TemplateInput } from './prompt.ts';
import type { ChatInput, ChatTurn, PastToolCall, ToolDefinition } from './types.ts';

/**
 * Converts a conversation to the input of a template. What the template cannot render is written into message texts.
 */
export function toTemplateInput(capabilities: TemplateCapabilities, input: ChatInput): TemplateInput {
  const tools = input.toolChoice === 'none' ? [] : (input.tools ?? []);
  const { source } = capabilities.template;
  const variable = tools.length > 0 ? capabilities.toolVariable : undefined;
  const toolDescription =
    tools.length > 0 && variable === undefined
      ? describeTools(tools, capabilities.toolCallFormat)
      : undefined;
  const turns = arrangeSystemMessages(
    input.messages,
    toolDescription,
    () => capabilities.systemMessageSupport,
  );
  const toolInput = variable ? toTemplateTools(variable, tools.map(toTemplateTool)) : {};
  return {
    messages: new MessageWriter(capabilities, input.continueLast === true).write(turns),
    ...(toolInput.tools ? { tools: toolInput.tools } : {}),
    variables: {
      ...thinkingVariables(source, input.thinking, (effort) => capabilities.acceptsEffort(effort)),
      ...requiredVariables(source),
      ...toolInput.variables,
      ...input.variables,
    },
  };
}

const toTemplateTool = ({ name, description, parameters }: ToolDefinition) => ({
  type: 'function',
  function: {
    name,
    description: description ?? '',
    parameters: parameters ?? { type: 'object', properties: {} },
  },
});

type AssistantTurn = Extract<ChatTurn, { role: 'assistant' }>;
type ToolTurn = Extract<ChatTurn, { role: 'tool' }>;

class MessageWriter {
  readonly #capabilities: TemplateCapabilities;
  readonly #continuesLast: boolean;
  readonly #shortIds = new ShortCallIds();
  readonly #messages: ChatMessage[] = [];
  /** Whether the last message contains tool results as user text. */
  #lastIsPlainResult = false;

  constructor(capabilities: TemplateCapabilities, continuesLast: boolean) {
    this.#capabilities = capabilities;
    this.#continuesLast = continuesLast;
  }

  write(turns: readonly ChatTurn[]): ChatMessage[] {
    for (let at = 0; at < turns.length; at++) {
      const turn = turns[at] as ChatTurn;
      if (turn.role === 'tool') {
        this.#addResults([turn], []);
      } else if (turn.role === 'assistant' && turn.toolCalls?.length) {
        const results = followingResults(turns, at + 1);
        this.#addCalls(turn, turn.toolCalls, results);
        at += results.length;
      } else {
        this.#addText(turn, this.#continuesLast && at === turns.length - 1);
      }
    }
    return this.#messages;
  }

  #addText(turn: Exclude<ChatTurn, ToolTurn>, continued: boolean): void {
    const name = turn.name ? { name: turn.name } : {};
    if (turn.role === 'user' && this.#lastIsPlainResult) {
      this.#addUserText(turn.content);
      return;
    }
    this.#lastIsPlainResult = false;
    if (turn.role !== 'assistant') {
      this.#messages.push({ role: turn.role, content: turn.content, ...name });
      return;
    }
    const { content, reasoningFields } = continued
      ? { content: turn.content, reasoningFields: {} }
      : this.#separateReasoning(turn);
    this.#messages.push({ role: 'assistant', content, ...name, ...reasoningFields });
  }

  /** Moves past reasoning to the message key that the template reads. The template decides what it renders. */
  #separateReasoning(turn: AssistantTurn): {
    content: string;
    reasoningFields: Readonly<Record<string, string>>;
  } {
    const { reasoning: marks, template } = this.#capabilities;
    const name = reasoningKeys.find((candidate) => readsVariable(template.source, candidate));
    // A template without such a key gets the content unchanged, with any reasoning at its start.
    if (name === undefined) return { content: turn.content, reasoningFields: {} };
    const split = turn.reasoning === undefined && marks ? splitReasoning(turn.content, marks) : undefined;
    const reasoning = turn.reasoning ?? split?.reasoning;
    const content = split?.content ?? turn.content;
    return { content, reasoningFields: reasoning ? { [name]: reasoning } : {} };
  }

  #addCalls(turn: AssistantTurn, calls: readonly PastToolCall[], results: readonly ToolTurn[]): void {
    this.#lastIsPlainResult = false;
    const shape = this.#capabilities.callMessageShape;
    const { content, reasoningFields } = this.#separateReasoning(turn);
    const name = turn.name ? { name: turn.name } : {};
    if (!shape) {
      const writtenCalls = this.#capabilities.toolCallFormat.serialize?.(calls.map(toSerializedCall)) ?? '';
      const text = [content, writtenCalls].filter((part) => part !== '').join('\n');
      this.#messages.push({ role: 'assistant', content: text, ...name, ...reasoningFields });
      this.#addResults(results, calls);
      return;
    }
    const hasSeparateContent = content !== '' && shape.content === 'before';
    const callContent = content === '' || shape.content !== 'same' ? shape.noContent : content;
    if (hasSeparateContent) this.#messages.push({ role: 'assistant', content, ...name });
    const first = { content: callContent, ...name, ...reasoningFields };
    const message = (messageCalls: readonly PastToolCall[], fields: object): ChatMessage => ({
      role: 'assistant',
      content: shape.noContent,
      ...fields,
      tool_calls: messageCalls.map((call) => this.#toTemplateCall(call, shape)),
    });
    if (shape.isOneMessage) {
      this.#messages.push(message(calls, first));
      this.#addResults(results, calls);
      return;
    }
    const remainingResults = [...results];
    for (const [index, call] of calls.entries()) {
      this.#messages.push(message([call], index === 0 ? first : name));
      const at = remainingResults.findIndex(
        (result) => result.callId === undefined || result.callId === call.id,
      );
      if (at !== -1) this.#addResults(remainingResults.splice(at, 1), [call]);
    }
    this.#addResults(remainingResults, calls);
  }

  #toTemplateCall(call: PastToolCall, shape: CallMessageShape) {
    const value = argumentsObject(call.arguments);
    return {
      id: this.#id(call.id),
      type: 'function',
      function: { name: call.name, arguments: shape.arguments === 'text' ? toSpacedJson(value) : value },
    };
  }

  #id(id: string): string {
    return this.#capabilities.callMessageShape?.shortIds ? this.#shortIds.shorten(id) : id;
  }

  #addResults(results: readonly ToolTurn[], calls: readonly PastToolCall[]): void {
    const hasToolRole =
      this.#capabilities.callMessageShape !== undefined || this.#capabilities.supportsToolRole;
    for (const [index, result] of results.entries()) {
      const call = calls.find(({ id }) => id === result.callId) ?? (result.callId ? undefined : calls[index]);
      const name = result.name ?? call?.name;
      const id = result.callId ?? call?.id;
      if (hasToolRole) {
        const named = { ...(name ? { name } : {}), ...(id ? { tool_call_id: this.#id(id) } : {}) };
        this.#messages.push({ role: 'tool', content: result.content, ...named });
      } else {
        this.#addUserText(formatToolResult(result.content));
      }
    }
  }

  /** Appends user text. Templates without tool results require alternating roles, so it joins the last user message. */
  #addUserText(text: string): void {
    this.#lastIsPlainResult = true;
    const last = this.#messages.at(-1);
    if (last?.role === 'user') last.content = `${String(last.content)}\n${text}`;
    else this.#messages.push({ role: 'user', content: text });
  }
}

const reasoningKeys = ['reasoning_content', 'thinking', 'reasoning'];

function followingResults(turns: readonly ChatTurn[], from: number): ToolTurn[] {
  const results: ToolTurn[] = [];
  for (let at = from; turns[at]?.role === 'tool'; at++) results.push(turns[at] as ToolTurn);
  return results;
}

const toSerializedCall = (call: PastToolCall) => ({
  id: call.id,
  name: call.name,
  arguments: toSpacedJson(argumentsObject(call.arguments)),
});

/** Arguments as an object, which templates iterate. Text that is not JSON becomes the member `arguments`. */
function argumentsObject(value: unknown): Readonly<Record<string, unknown>> {
  if (value === undefined || value === null || value === '') return {};
  if (isRecord(value)) return value;
  return { arguments: value };
}
