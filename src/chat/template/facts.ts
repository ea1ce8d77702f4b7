import type { ChatMessage, ChatTemplate } from '../../engine/index.ts';
import { jsonText } from '../json-text.ts';
import type { ReasoningMarks } from '../parser/answer.ts';
import { hermes, styleOf, type ToolStyle } from '../styles/index.ts';
import { findCallForm } from './call-form.ts';
import { type CallForm, inOrder, probe, probeMessages, probeTool, tried } from './probe.ts';
import { reasoningOf } from './reasoning.ts';
import { reads } from './thinking.ts';

/** What a template can do, found by trying it out; each finding is made when it is first asked for. */
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

  /** The way of writing calls that the template teaches, or that we teach where it teaches none. */
  get style(): ToolStyle {
    this.#style ??= this.#findStyle();
    return this.#style;
  }

  /** Undefined: the template does not write past calls. */
  get callForm(): CallForm | undefined {
    this.#callForm ??= { found: findCallForm(this.template) };
    return this.#callForm.found;
  }

  /** Whether results may have a role of their own where calls are written as text. */
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

  /** Where instructions may stand: as the first message, several there, and later on. */
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

  /** Some templates refuse degrees of reasoning that they do not know. */
  acceptsEffort(effort: string): boolean {
    const messages = [{ role: 'user', content: probe.question }];
    return tried(this.template, messages, { variables: { reasoning_effort: effort } }) !== undefined;
  }

  /** Templates for conversations with tools may refuse all others. */
  #try(messages: readonly ChatMessage[]): string | undefined {
    return tried(this.template, messages) ?? tried(this.template, messages, { tools: [probeTool] });
  }

  /** How the template is shown tools; undefined: it leaves them out. */
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
    // What is neither written by the template nor by the style can be read in no conversation.
    const shown = form !== undefined && this.toolVariable !== undefined;
    return style && (shown || style.write) ? style : hermes;
  }
}

/** Names of the variable in which templates look for tools. */
const toolVariables = ['tools', 'xml_tools', 'functions'] as const;
export type ToolVariable = (typeof toolVariables)[number];

/** Tools as a template wants them. */
export function toolsAs(
  variable: ToolVariable,
  tools: readonly (typeof probeTool | { function: unknown })[],
): { tools?: readonly unknown[]; variables?: Readonly<Record<string, unknown>> } {
  if (variable === 'tools') return { tools };
  const functions = tools.map((tool) => tool.function);
  // SmolLM3 writes each as a text, FireFunction all of them.
  if (variable === 'xml_tools') return { variables: { xml_tools: functions.map((one) => jsonText(one)) } };
  return { variables: { functions: JSON.stringify(functions, undefined, 4) } };
}

const known = new WeakMap<ChatTemplate, TemplateFacts>();

export function templateFacts(template: ChatTemplate): TemplateFacts {
  const facts = known.get(template) ?? new TemplateFacts(template);
  known.set(template, facts);
  return facts;
}
