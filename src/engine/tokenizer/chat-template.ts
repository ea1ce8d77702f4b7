import { Template } from '@huggingface/jinja';
import { errorMessage } from '../../util/error-message.ts';
import type { Metadata } from '../formats/model-file.ts';
import { pythonFunctions, applyPythonSemantics } from './python-semantics.ts';
import type { ChatMessage, ChatTemplate, Tokenizer } from './types.ts';

/**
 * A conversation that the chat template rejects, or a template that cannot run. The message ends with the template's.
 */
export class ChatTemplateError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'ChatTemplateError';
  }
}

type Variables = Readonly<Record<string, unknown>>;
type RenderInput = Parameters<ChatTemplate['render']>[0];

/**
 * Creates the model's chat template; undefined when the file has none. A template that does not parse fails on first
 * use, so that plain completions still work.
 */
export function createChatTemplate(metadata: Metadata, tokenizer: Tokenizer): ChatTemplate | undefined {
  const source = metadata.get('tokenizer.chat_template');
  if (typeof source !== 'string') return undefined;
  // Some families (Command R, Hermes) have a second template for conversations with tools.
  const toolTemplateSource = metadata.get('tokenizer.chat_template.tool_use');
  const tokenTextOf = (id: number | undefined) => (id === undefined ? '' : tokenizer.tokenText(id));
  const tokens = { bos_token: tokenTextOf(tokenizer.bosId), eos_token: tokenTextOf(tokenizer.eosId) };
  const defaultTemplate = new JinjaTemplate(source, tokens);
  const toolTemplate =
    typeof toolTemplateSource === 'string' ? new JinjaTemplate(toolTemplateSource, tokens) : defaultTemplate;
  return {
    source,
    render: (input) => (input.tools?.length ? toolTemplate : defaultTemplate).render(input),
  };
}

class JinjaTemplate {
  readonly #source: string;
  readonly #tokens: Variables;
  #parsed: Template | undefined;
  #readsContentParts: boolean | undefined;

  constructor(source: string, tokens: Variables) {
    this.#source = source;
    this.#tokens = tokens;
  }

  render(input: RenderInput): string {
    return this.#renderWithFallback({
      ...input,
      messages: input.messages.map((message) => this.#adaptContent(message)),
    });
  }

  #renderWithFallback(input: RenderInput): string {
    try {
      return this.#renderWith(input, input.tools ?? null);
    } catch (error) {
      // In Python, filters accept None as an empty list; @huggingface/jinja rejects it.
      if (!input.tools) {
        try {
          return this.#renderWith(input, []);
        } catch {
          // Report the first error.
        }
      }
      // Errors of `raise_exception` and unsupported Jinja features are not distinguishable.
      const reason = errorMessage(error);
      throw new ChatTemplateError(`chat template: ${reason}`, { cause: error });
    }
  }

  /** Renders with the variables of transformers' `apply_chat_template`; absent ones are None, as there. */
  #renderWith(input: RenderInput, tools: readonly unknown[] | null): string {
    this.#parsed ??= parseTemplate(this.#source);
    return this.#parsed.render({
      ...this.#tokens,
      documents: null,
      ...pythonFunctions,
      ...input.variables,
      messages: input.messages,
      tools,
      add_generation_prompt: input.addGenerationPrompt ?? false,
    });
  }

  /** Keeps content parts if the template can read them; otherwise joins their texts with line breaks. */
  #adaptContent(message: ChatMessage): ChatMessage {
    if (!Array.isArray(message.content) || this.#canReadContentParts()) return message;
    const texts = message.content.map((part: unknown) => {
      if (isTextPart(part)) return part.text;
      throw new ChatTemplateError(
        "the model's chat template accepts only text: send content parts of type 'text'",
      );
    });
    return { ...message, content: texts.join('\n') };
  }

  /**
   * Whether the template reads content parts. Tested once: it does when it prints the texts of two parts without the
   * objects that hold them.
   */
  #canReadContentParts(): boolean {
    if (this.#readsContentParts === undefined) {
      const texts = ['first-part-7f3a', 'second-part-7f3a'];
      const content = texts.map((text) => ({ type: 'text', text }));
      try {
        const output = this.#renderWithFallback({
          messages: [{ role: 'user', content }],
          addGenerationPrompt: true,
        });
        this.#readsContentParts =
          texts.every((text) => output.includes(text)) && !/["']text["']\s*:/.test(output);
      } catch {
        this.#readsContentParts = false;
      }
    }
    return this.#readsContentParts;
  }
}

function parseTemplate(source: string): Template {
  const template = new Template(source);
  applyPythonSemantics(template.parsed);
  return template;
}

function isTextPart(part: unknown): part is { text: string } {
  return (
    typeof part === 'object' &&
    part !== null &&
    'type' in part &&
    part.type === 'text' &&
    'text' in part &&
    typeof part.text === 'string'
  );
}
