import type { ChatMessage, ChatTemplate } from '../../engine/index.ts';
import { toSpacedJson } from '../json-text.ts';
import type { ReasoningDelimiters } from '../parser/answer-parser.ts';
import { hermes, findToolCallFormat, type ToolCallFormat } from '../tool-call-formats/index.ts';
import { findCallMessageShape } from './call-message-shape.ts';
import {
  type CallMessageShape,
  containsInOrder,
  probe,
  probeMessages,
  probeTool,
  tryRender,
} from './probe.ts';
import { detectReasoning } from './reasoning.ts';
import { readsVariable } from './thinking.ts';

/** The capabilities of a template, found by test renderings. Each is determined on first use. */
export class TemplateCapabilities {
  readonly template: ChatTemplate;
  readonly reasoning: ReasoningDelimiters | undefined;
  #toolCallFormat: ToolCallFormat | undefined;
  #toolVariable: { value: ToolVariable | undefined } | undefined;
  #callMessageShape: { value: CallMessageShape | undefined } | undefined;
  #systemMessageSupport: { first: boolean; several: boolean; later: boolean } | undefined;
  #acceptsToolRole: boolean | undefined;

  constructor(template: ChatTemplate) {
    this.template = template;
    this.reasoning = detectReasoning(template.source);
  }

  /** The tool call format that the template uses, or the default one (Hermes) when it uses none. */
  get toolCallFormat(): ToolCallFormat {
    this.#toolCallFormat ??= this.#findFormat();
    return this.#toolCallFormat;
  }

  /** Undefined when the template does not render past calls. */
  get callMessageShape(): CallMessageShape | undefined {
    this.#callMessageShape ??= { value: findCallMessageShape(this.template) };
    return this.#callMessageShape.value;
  }

  /** Whether the template renders messages with the tool role when calls are written as text. */
  get supportsToolRole(): boolean {
    this.#acceptsToolRole ??= containsInOrder(
      tryRender(
        this.template,
        [
          { role: 'user', content: probe.question },
          { role: 'assistant', content: probe.answer },
          { role: 'tool', content: probe.results[0], name: 'probe_tool', tool_call_id: 'abcdef123' },
          { role: 'tool', content: probe.results[1], name: 'probe_tool', tool_call_id: 'abcdef124' },
        ],
        { tools: [probeTool] },
      ),
      [probe.question, probe.answer, ...probe.results],
    );
    return this.#acceptsToolRole;
  }

  /** Where the template renders system messages: as the first message, several of them there, and later. */
  get systemMessageSupport(): { first: boolean; several: boolean; later: boolean } {
    const system = { role: 'system', content: probe.system };
    const laterSystem = { role: 'system', content: probe.laterSystem };
    const user = { role: 'user', content: probe.question };
    const turns = [user, { role: 'assistant', content: probe.answer }];
    const last = { role: 'user', content: probe.lastQuestion };
    this.#systemMessageSupport ??= {
      first: containsInOrder(this.#tryRenderAny([system, user]), [probe.system, probe.question]),
      several: containsInOrder(this.#tryRenderAny([system, laterSystem, user]), [
        probe.system,
        probe.laterSystem,
        probe.question,
      ]),
      later: containsInOrder(this.#tryRenderAny([system, ...turns, laterSystem, last]), [
        probe.system,
        probe.answer,
        probe.laterSystem,
        probe.lastQuestion,
      ]),
    };
    return this.#systemMessageSupport;
  }

  /** Whether the template renders with a `reasoning_effort`; some reject values that they do not know. */
  acceptsEffort(effort: string): boolean {
    const messages = [{ role: 'user', content: probe.question }];
    return tryRender(this.template, messages, { variables: { reasoning_effort: effort } }) !== undefined;
  }

  /** Tries without tools and then with tools, because some templates render only conversations with tools. */
  #tryRenderAny(messages: readonly ChatMessage[]): string | undefined {
    return tryRender(this.template, messages) ?? tryRender(this.template, messages, { tools: [probeTool] });
  }

  /** The variable from which the template renders tools; undefined when it does not render them. */
  get toolVariable(): ToolVariable | undefined {
    this.#toolVariable ??= { value: toolVariables.find((variable) => this.#rendersTools(variable)) };
    return this.#toolVariable.value;
  }

  #rendersTools(variable: ToolVariable): boolean {
    if (variable !== 'tools' && !readsVariable(this.template.source, variable)) return false;
    const messages = [{ role: 'user', content: probe.question }];
    const output = tryRender(this.template, messages, toTemplateTools(variable, [probeTool]));
    return output?.includes('probe_tool') === true && output.includes('probe_key');
  }

  #findFormat(): ToolCallFormat {
    const { template } = this;
    const shape = this.callMessageShape;
    const rendered = shape ? (tryRender(template, probeMessages(shape), { tools: [probeTool] }) ?? '') : '';
    const from = rendered.indexOf(probe.question) + probe.question.length;
    const call = shape ? rendered.slice(from, rendered.indexOf(probe.results[0])) : '';
    const toolCallFormat = findToolCallFormat({ source: template.source, call });
    // A format that neither the template nor we can render cannot be used in a conversation.
    const isWritten = shape !== undefined && this.toolVariable !== undefined;
    return toolCallFormat && (isWritten || toolCallFormat.serialize) ? toolCallFormat : hermes;
  }
}

/** Names of the variable from which templates read tools. */
const toolVariables = ['tools', 'xml_tools', 'functions'] as const;
export type ToolVariable = (typeof toolVariables)[number];

/** Converts tools to the input of a template that reads them from `variable`. */
export function toTemplateTools(
  variable: ToolVariable,
  tools: readonly (typeof probeTool | { function: unknown })[],
): { tools?: readonly unknown[]; variables?: Readonly<Record<string, unknown>> } {
  if (variable === 'tools') return { tools };
  const functions = tools.map((tool) => tool.function);
  // SmolLM3 expects a list of JSON texts, FireFunction one JSON text.
  if (variable === 'xml_tools')
    return { variables: { xml_tools: functions.map((one) => toSpacedJson(one)) } };
  return { variables: { functions: JSON.stringify(functions, undefined, 4) } };
}

const capabilitiesByTemplate = new WeakMap<ChatTemplate, TemplateCapabilities>();

export function getTemplateCapabilities(template: ChatTemplate): TemplateCapabilities {
  const capabilities = capabilitiesByTemplate.get(template) ?? new TemplateCapabilities(template);
  capabilitiesByTemplate.set(template, capabilities);
  return capabilities;
}
