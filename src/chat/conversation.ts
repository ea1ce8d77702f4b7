import type { ChatMessage } from '../engine/index.ts';
import { isRecord } from '../util/json.ts';
import { ShortIds } from './call-ids.ts';
import { jsonText } from './json-text.ts';
import { describeTools, resultText } from './described-tools.ts';
import type { CallForm } from './template/probe.ts';
import { type TemplateFacts, toolsAs } from './template/facts.ts';
import { splitReasoning } from './template/reasoning.ts';
import { reads, standingVariables, thinkingVariables } from './template/thinking.ts';
import { arrangeSystems } from './systems.ts';
import type { RenderedConversation } from './prompt.ts';
import type { ChatInput, ChatTurn, PastCall, ToolDefinition } from './types.ts';

/**
 * Converts a conversation to the input of a template. What the template cannot render is written into message texts.
 */
export function toConversation(facts: TemplateFacts, input: ChatInput): RenderedConversation {
  const tools = input.toolChoice === 'none' ? [] : (input.tools ?? []);
  const { source } = facts.template;
  const variable = tools.length > 0 ? facts.toolVariable : undefined;
  const described =
    tools.length > 0 && variable === undefined ? describeTools(tools, facts.style) : undefined;
  const turns = arrangeSystems(input.messages, described, () => facts.systems);
  const shown = variable ? toolsAs(variable, tools.map(toTemplateTool)) : {};
  return {
    messages: new MessageWriter(facts, input.continueLast === true).write(turns),
    ...(shown.tools ? { tools: shown.tools } : {}),
    variables: {
      ...thinkingVariables(source, input.thinking, (effort) => facts.acceptsEffort(effort)),
      ...standingVariables(source),
      ...shown.variables,
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
  readonly #facts: TemplateFacts;
  readonly #continues: boolean;
  readonly #shortIds = new ShortIds();
  readonly #messages: ChatMessage[] = [];
  /** Whether the last message contains tool results as user text. */
  #tells = false;

  constructor(facts: TemplateFacts, continues: boolean) {
    this.#facts = facts;
    this.#continues = continues;
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
        this.#addText(turn, this.#continues && at === turns.length - 1);
      }
    }
    return this.#messages;
  }

  #addText(turn: Exclude<ChatTurn, ToolTurn>, continued: boolean): void {
    const name = turn.name ? { name: turn.name } : {};
    if (turn.role === 'user' && this.#tells) {
      this.#addUserText(turn.content);
      return;
    }
    this.#tells = false;
    if (turn.role !== 'assistant') {
      this.#messages.push({ role: turn.role, content: turn.content, ...name });
      return;
    }
    const { content, thought } = continued ? { content: turn.content, thought: {} } : this.#thought(turn);
    this.#messages.push({ role: 'assistant', content, ...name, ...thought });
  }

  /** Moves past reasoning to the message key that the template reads. The template decides what it renders. */
  #thought(turn: AssistantTurn): { content: string; thought: Readonly<Record<string, string>> } {
    const { reasoning: marks, template } = this.#facts;
    const name = reasoningNames.find((one) => reads(template.source, one));
    // A template without such a key gets the content unchanged, with any reasoning at its start.
    if (name === undefined) return { content: turn.content, thought: {} };
    const split = turn.reasoning === undefined && marks ? splitReasoning(turn.content, marks) : undefined;
    const reasoning = turn.reasoning ?? split?.reasoning;
    const content = split?.content ?? turn.content;
    return { content, thought: reasoning ? { [name]: reasoning } : {} };
  }

  #addCalls(turn: AssistantTurn, calls: readonly PastCall[], results: readonly ToolTurn[]): void {
    this.#tells = false;
    const form = this.#facts.callForm;
    const { content, thought } = this.#thought(turn);
    const name = turn.name ? { name: turn.name } : {};
    if (!form) {
      const written = this.#facts.style.write?.(calls.map(toWritten)) ?? '';
      const text = [content, written].filter((part) => part !== '').join('\n');
      this.#messages.push({ role: 'assistant', content: text, ...name, ...thought });
      this.#addResults(results, calls);
      return;
    }
    const saying = content !== '' && form.content === 'before';
    const beside = content === '' || form.content !== 'same' ? form.noContent : content;
    if (saying) this.#messages.push({ role: 'assistant', content, ...name });
    const first = { content: beside, ...name, ...thought };
    const message = (some: readonly PastCall[], around: object): ChatMessage => ({
      role: 'assistant',
      content: form.noContent,
      ...around,
      tool_calls: some.map((call) => this.#toTemplateCall(call, form)),
    });
    if (form.together) {
      this.#messages.push(message(calls, first));
      this.#addResults(results, calls);
      return;
    }
    const left = [...results];
    for (const [index, call] of calls.entries()) {
      this.#messages.push(message([call], index === 0 ? first : name));
      const at = left.findIndex((result) => result.callId === undefined || result.callId === call.id);
      if (at !== -1) this.#addResults(left.splice(at, 1), [call]);
    }
    this.#addResults(left, calls);
  }

  #toTemplateCall(call: PastCall, form: CallForm) {
    const value = argumentsObject(call.arguments);
    return {
      id: this.#id(call.id),
      type: 'function',
      function: { name: call.name, arguments: form.arguments === 'text' ? jsonText(value) : value },
    };
  }

  #id(id: string): string {
    return this.#facts.callForm?.shortIds ? this.#shortIds.of(id) : id;
  }

  #addResults(results: readonly ToolTurn[], calls: readonly PastCall[]): void {
    const own = this.#facts.callForm !== undefined || this.#facts.takesResults;
    for (const [index, result] of results.entries()) {
      const call = calls.find(({ id }) => id === result.callId) ?? (result.callId ? undefined : calls[index]);
      const name = result.name ?? call?.name;
      const id = result.callId ?? call?.id;
      if (own) {
        const named = { ...(name ? { name } : {}), ...(id ? { tool_call_id: this.#id(id) } : {}) };
        this.#messages.push({ role: 'tool', content: result.content, ...named });
      } else {
        this.#addUserText(resultText(result.content));
      }
    }
  }

  /** Appends user text. Templates without tool results require alternating roles, so it joins the last user message. */
  #addUserText(text: string): void {
    this.#tells = true;
    const last = this.#messages.at(-1);
    if (last?.role === 'user') last.content = `${String(last.content)}\n${text}`;
    else this.#messages.push({ role: 'user', content: text });
  }
}

const reasoningNames = ['reasoning_content', 'thinking', 'reasoning'];

function followingResults(turns: readonly ChatTurn[], from: number): ToolTurn[] {
  const results: ToolTurn[] = [];
  for (let at = from; turns[at]?.role === 'tool'; at++) results.push(turns[at] as ToolTurn);
  return results;
}

const toWritten = (call: PastCall) => ({
  id: call.id,
  name: call.name,
  arguments: jsonText(argumentsObject(call.arguments)),
});

/** Arguments as an object, which templates iterate. Text that is not JSON becomes the member `arguments`. */
function argumentsObject(value: unknown): Readonly<Record<string, unknown>> {
  if (value === undefined || value === null || value === '') return {};
  if (isRecord(value)) return value;
  return { arguments: value };
}
