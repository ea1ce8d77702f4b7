import type { ChatMessage, ChatTemplate } from '../../engine/index.ts';
import { jsonText } from '../json-text.ts';
import type { ReasoningMarks } from '../parser/answer.ts';
import { hermes, styleOf, type ToolStyle } from '../styles/index.ts';
import { findCallForm } from './call-form.ts';
import { type CallForm, inOrder, probe, probeMessages, probeTool, tried } from './probe.ts';
import { reasoningOf } from './reasoning.ts';
import { reads } from './thinking.ts';

/** The capabilities of a template, found by test renderings. Each is determined on first use. */
export class TemplateFacts {
  readonly template: ChatTemplate;
  readonly reasoning: ReasoningMarks | undefined;
  #style: ToolStyle | undefined;
  #toolVariable: { found: ToolVariable | undefined } | undefined;
  #callForm: { found: CallForm | undefined } | undefined;
  #systems: { first: boolean; several: boolean; later: boolean } | undefined;
  #results: boolean | undefined;

  constructor(template: ChatTemplate) {
    this.template = template;
    this.reasoning = reasoningOf(template.source);
  }

  /** The tool call format that the template uses, or the default one (Hermes) when it uses none. */
  get style(): ToolStyle {
    this.#style ??= this.#findStyle();
    return this.#style;
  }

  /** Undefined when the template does not render past calls. */
  get callForm(): CallForm | undefined {
    this.#callForm ??= { found: findCallForm(this.template) };
    return this.#callForm.found;
  }

  /** Whether the template renders messages with the tool role when calls are written as text. */
  get takesResults(): boolean {
    this.#results ??= inOrder(
      tried(
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
    return this.#results;
  }

  /** Where the template renders system messages: as the first message, several of them there, and later. */
  get systems(): { first: boolean; several: boolean; later: boolean } {
    const system = { role: 'system', content: probe.system };
    const more = { role: 'system', content: probe.laterSystem };
    const user = { role: 'user', content: probe.question };
    const turns = [user, { role: 'assistant', content: probe.answer }];
    const last = { role: 'user', content: probe.lastQuestion };
    this.#systems ??= {
      first: inOrder(this.#try([system, user]), [probe.system, probe.question]),
      several: inOrder(this.#try([system, more, user]), [probe.system, probe.laterSystem, probe.question]),
      later: inOrder(this.#try([system, ...turns, more, last]), [
        probe.system,
        probe.answer,
        probe.laterSystem,
        probe.lastQuestion,
      ]),
    };
    return this.#systems;
  }

  /** Whether the template renders with a `reasoning_effort`; some reject values that they do not know. */
  acceptsEffort(effort: string): boolean {
    const messages = [{ role: 'user', content: probe.question }];
    return tried(this.template, messages, { variables: { reasoning_effort: effort } }) !== undefined;
  }

  /** Tries without tools and then with tools, because some templates render only conversations with tools. */
  #try(messages: readonly ChatMessage[]): string | undefined {
    return tried(this.template, messages) ?? tried(this.template, messages, { tools: [probeTool] });
  }

  /** The variable from which the template renders tools; undefined when it does not render them. */
  get toolVariable(): ToolVariable | undefined {
    this.#toolVariable ??= { found: toolVariables.find((variable) => this.#shows(variable)) };
    return this.#toolVariable.found;
  }

  #shows(variable: ToolVariable): boolean {
    if (variable !== 'tools' && !reads(this.template.source, variable)) return false;
    const messages = [{ role: 'user', content: probe.question }];
    const shown = tried(this.template, messages, toolsAs(variable, [probeTool]));
    return shown?.includes('probe_tool') === true && shown.includes('probe_key');
  }

  #findStyle(): ToolStyle {
    const { template } = this;
    const form = this.callForm;
    const rendered = form ? (tried(template, probeMessages(form), { tools: [probeTool] }) ?? '') : '';
    const from = rendered.indexOf(probe.question) + probe.question.length;
    const call = form ? rendered.slice(from, rendered.indexOf(probe.results[0])) : '';
    const style = styleOf({ source: template.source, call });
    // A format that neither the template nor we can render cannot be used in a conversation.
    const shown = form !== undefined && this.toolVariable !== undefined;
    return style && (shown || style.write) ? style : hermes;
  }
}

/** Names of the variable from which templates read tools. */
const toolVariables = ['tools', 'xml_tools', 'functions'] as const;
export type ToolVariable = (typeof toolVariables)[number];

/** Converts tools to the input of a template that reads them from `variable`. */
export function toolsAs(
  variable: ToolVariable,
  tools: readonly (typeof probeTool | { function: unknown })[],
): { tools?: readonly unknown[]; variables?: Readonly<Record<string, unknown>> } {
  if (variable === 'tools') return { tools };
  const functions = tools.map((tool) => tool.function);
  // SmolLM3 expects a list of JSON texts, FireFunction one JSON text.
  if (variable === 'xml_tools') return { variables: { xml_tools: functions.map((one) => jsonText(one)) } };
  return { variables: { functions: JSON.stringify(functions, undefined, 4) } };
}

const known = new WeakMap<ChatTemplate, TemplateFacts>();

export function templateFacts(template: ChatTemplate): TemplateFacts {
  const facts = known.get(template) ?? new TemplateFacts(template);
  known.set(template, facts);
  return facts;
}
