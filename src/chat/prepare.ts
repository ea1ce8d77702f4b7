import type { ChatTemplate, Engine } from '../engine/index.ts';
import { buildAnswerGrammar } from './answer-grammar.ts';
import { createCallId } from './call-ids.ts';
import { toTemplateInput } from './template-input.ts';
import { getControlTokenTexts, ControlTextEscaper, collectTexts } from './control-text-escaper.ts';
import { createAnswerParser, type AnswerParserOptions } from './parser/answer-parser.ts';
import {
  encodePrompt,
  type TemplateInput,
  rejectTooMany,
  rejectOverlongText,
  renderPrompt,
} from './prompt.ts';
import { toGrammarTools } from './grammar-tools.ts';
import { findWholeAnswerFormat } from './tool-call-formats/index.ts';
import { getTemplateCapabilities } from './template/capabilities.ts';
import { findReasoningState, type ReasoningState } from './template/reasoning.ts';
import {
  ChatError,
  type ChatInput,
  type ChatTraits,
  type PreparedChat,
  type ToolDefinition,
} from './types.ts';

type Model = Pick<Engine, 'tokenizer' | 'chatTemplate' | 'model'>;

/**
 * Renders and encodes a conversation for a model, and creates the grammar and the parser of its answers.
 * @throws ChatError
 */
export async function prepareChat(model: Model, input: ChatInput): Promise<PreparedChat> {
  const { tokenizer, chatTemplate } = model;
  if (!chatTemplate) {
    throw new ChatError('no_chat_template', 'This model has no chat template; use POST /v1/completions.');
  }
  await rejectOversizedInput(model, input);
  const tools = callableTools(input);
  const capabilities = getTemplateCapabilities(chatTemplate);
  const escaper = new ControlTextEscaper(tokenizer);
  const messages = escaper.escapeAll(input.messages);
  const conversation = toTemplateInput(capabilities, {
    ...input,
    messages,
    ...(input.tools ? { tools: escaper.escapeAll(input.tools) } : {}),
    ...(input.variables ? { variables: escaper.escapeAll(input.variables) } : {}),
  });
  const rendered = input.continueLast
    ? renderContinuation(chatTemplate, conversation, escaper)
    : renderPrompt(chatTemplate, { ...conversation, addGenerationPrompt: !input.omitGenerationPrompt });
  const { text, ids } = await encodePrompt(model, rendered, escaper);

  const { reasoning } = capabilities;
  const continuedText = input.continueLast ? (input.messages.at(-1)?.content ?? '') : '';
  const reasoningState = findReasoningState(reasoning, text, continuedText);
  const toolCallFormat =
    tools.length > 0 ? capabilities.toolCallFormat : findWholeAnswerFormat(chatTemplate.source);
  const { toolChoice = 'auto' } = input;
  const grammar = buildAnswerGrammar({
    toolCallFormat,
    tools: toGrammarTools(tools, toolChoice),
    requiresCall: tools.length > 0 && toolChoice !== 'auto',
    // A tool choice that names a tool allows one call.
    allowsParallelCalls: input.parallelToolCalls !== false && typeof toolChoice !== 'object',
    output: input.output,
    forbiddenTriggers:
      toolChoice === 'none' && input.tools?.length
        ? (capabilities.toolCallFormat.grammar?.triggers ?? [])
        : [],
    reasoning,
    reasoningState,
  });
  const toolsByName = new Map(tools.map((tool) => [tool.name, tool]));
  const markers = [
    ...(toolCallFormat ? [...toolCallFormat.triggers, ...(toolCallFormat.markers ?? [])] : []),
    ...(reasoning ? [...reasoning.open, ...reasoning.close] : []),
  ];
  return {
    prompt: ids,
    text,
    grammar,
    visible: findControlTokens(model, markers),
    stop: [],
    parser: () =>
      createAnswerParser({
        toolCallFormat,
        reasoning,
        startState:
          reasoning || input.continueLast ? startStateOf(reasoningState, input.continueLast) : 'turn',
        tools: toolsByName,
        isSingleCall: input.parallelToolCalls === false,
        newId: createCallId,
      }),
  };
}

function startStateOf(reasoningState: ReasoningState, continues = false): AnswerParserOptions['startState'] {
  if (reasoningState === 'within') return 'reasoning';
  if (continues) return 'text';
  return reasoningState === 'after' ? 'behind reasoning' : 'turn';
}

/** The capabilities of a model's chat template. */
export function getChatTraits({ chatTemplate }: Pick<Model, 'chatTemplate'>): ChatTraits {
  if (!chatTemplate) return { toolStyle: undefined, reasoning: false };
  const capabilities = getTemplateCapabilities(chatTemplate);
  return {
    toolStyle: capabilities.toolVariable ? capabilities.toolCallFormat.name : undefined,
    reasoning: capabilities.reasoning !== undefined,
  };
}

/** Rejects input that cannot fit before rendering and encoding it, which would block other requests. */
async function rejectOversizedInput({ tokenizer, model }: Model, input: ChatInput): Promise<void> {
  const limit = model.contextLength;
  const calls = input.messages.reduce(
    (sum, turn) => sum + (turn.role === 'assistant' ? (turn.toolCalls?.length ?? 0) : 0),
    0,
  );
  rejectTooMany(input.messages.length, 'messages', limit);
  rejectTooMany(calls, 'tool calls', limit);
  rejectTooMany(input.tools?.length ?? 0, 'tools', limit);
  const userTexts = collectTexts([
    input.messages.map((turn) => ({ ...turn, role: '' })),
    input.toolChoice === 'none' ? [] : (input.tools ?? []),
    input.variables ?? {},
  ]);
  for (const text of userTexts) await rejectOverlongText(tokenizer, text, limit);
}

/** The tools that an answer may call, checked against the tool choice. */
function callableTools({ tools = [], toolChoice = 'auto' }: ChatInput): readonly ToolDefinition[] {
  if (toolChoice === 'none') return [];
  if (tools.length === 0 && toolChoice !== 'auto') {
    throw new ChatError(
      'unknown_tool',
      'tool_choice requires a tool call, but the request has no tools. Send tools, or omit tool_choice.',
    );
  }
  if (typeof toolChoice === 'object' && !tools.some(({ name }) => name === toolChoice.name)) {
    const names = tools.map(({ name }) => name).join(', ');
    throw new ChatError(
      'unknown_tool',
      `The request has no tool '${toolChoice.name}' (its tools: ${names}).`,
    );
  }
  return tools;
}

/** Renders the prompt up to the end of the last message's content, which the answer continues. */
function renderContinuation(
  template: ChatTemplate,
  conversation: TemplateInput,
  escaper: ControlTextEscaper,
): string {
  const messages = [...conversation.messages];
  const last = messages.pop();
  if (last?.role !== 'assistant' || last['tool_calls'] !== undefined) {
    throw new ChatError(
      'chat_template_error',
      'Only an assistant message without tool calls can be continued, and it must be the last message.',
    );
  }
  const end = escaper.createPlaceholder();
  const content = `${typeof last.content === 'string' ? last.content : ''}${end}`;
  const rendered = renderPrompt(template, {
    ...conversation,
    messages: [...messages, { ...last, content }],
    addGenerationPrompt: false,
  });
  const at = rendered.indexOf(end);
  if (at === -1) {
    throw new ChatError(
      'chat_template_error',
      "The model's chat template does not render the last assistant message, so the answer cannot continue it.",
    );
  }
  return rendered.slice(0, at);
}

/** The control tokens in the given texts, except those that end an answer. */
function findControlTokens({ tokenizer }: Model, texts: readonly string[]): ReadonlySet<number> {
  const { pattern, ids } = getControlTokenTexts(tokenizer);
  const found = texts.flatMap((text) => text.match(pattern) ?? []);
  const visible = found.map((text) => ids.get(text)).filter((id) => id !== undefined);
  return new Set(visible.filter((id) => !tokenizer.endIds.has(id)));
}
