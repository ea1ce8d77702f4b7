import type { ChatTemplate, Engine } from '../engine/index.ts';
import { answerGrammar } from './answer-grammar.ts';
import { newCallId } from './call-ids.ts';
import { toConversation } from './conversation.ts';
import { controlTexts, Marks, textsOf } from './marks.ts';
import { answerParser, type AnswerReading } from './parser/answer.ts';
import { encodePrompt, type RenderedConversation, refuseMany, refuseOverlong, render } from './prompt.ts';
import { boundTools } from './bound-tools.ts';
import { wholeAnswerStyle } from './styles/index.ts';
import { templateFacts } from './template/facts.ts';
import { reasoningPlace, type ReasoningPlace } from './template/reasoning.ts';
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
  await refuseHuge(model, input);
  const tools = callableTools(input);
  const facts = templateFacts(chatTemplate);
  const marks = new Marks(tokenizer);
  const messages = marks.markAll(input.messages);
  const conversation = toConversation(facts, {
    ...input,
    messages,
    ...(input.tools ? { tools: marks.markAll(input.tools) } : {}),
    ...(input.variables ? { variables: marks.markAll(input.variables) } : {}),
  });
  const rendered = input.continueLast
    ? renderOpenEnded(chatTemplate, conversation, marks)
    : render(chatTemplate, conversation);
  const { text, ids } = await encodePrompt(model, rendered, marks);

  const { reasoning } = facts;
  const written = input.continueLast ? (input.messages.at(-1)?.content ?? '') : '';
  const place = reasoningPlace(reasoning, text, written);
  const style = tools.length > 0 ? facts.style : wholeAnswerStyle(chatTemplate.source);
  const { toolChoice = 'auto' } = input;
  const grammar = answerGrammar({
    style,
    tools: boundTools(tools, toolChoice),
    required: tools.length > 0 && toolChoice !== 'auto',
    // A tool choice that names a tool allows one call.
    parallel: input.parallelToolCalls !== false && typeof toolChoice !== 'object',
    output: input.output,
    forbidden: toolChoice === 'none' && input.tools?.length ? (facts.style.grammar?.triggers ?? []) : [],
    reasoning,
    place,
  });
  const callable = new Map(tools.map((tool) => [tool.name, tool]));
  const markers = [
    ...(style ? [...style.triggers, ...(style.markers ?? [])] : []),
    ...(reasoning ? [...reasoning.open, ...reasoning.close] : []),
  ];
  return {
    prompt: ids,
    text,
    grammar,
    visible: controlTokensIn(model, markers),
    stop: [],
    parser: () =>
      answerParser({
        style,
        reasoning,
        begins: reasoning || input.continueLast ? beginning(place, input.continueLast) : 'turn',
        tools: callable,
        single: input.parallelToolCalls === false,
        newId: newCallId,
      }),
  };
}

function beginning(place: ReasoningPlace, continues = false): AnswerReading['begins'] {
  if (place === 'within') return 'reasoning';
  if (continues) return 'text';
  return place === 'after' ? 'behind reasoning' : 'turn';
}

/** The capabilities of a model's chat template. */
export function chatTraits({ chatTemplate }: Pick<Model, 'chatTemplate'>): ChatTraits {
  if (!chatTemplate) return { toolStyle: undefined, reasoning: false };
  const facts = templateFacts(chatTemplate);
  return {
    toolStyle: facts.toolVariable ? facts.style.name : undefined,
    reasoning: facts.reasoning !== undefined,
  };
}

/** Rejects input that cannot fit before rendering and encoding it, which would block other requests. */
async function refuseHuge({ tokenizer, model }: Model, input: ChatInput): Promise<void> {
  const limit = model.contextLength;
  const calls = input.messages.reduce(
    (sum, turn) => sum + (turn.role === 'assistant' ? (turn.toolCalls?.length ?? 0) : 0),
    0,
  );
  refuseMany(input.messages.length, 'messages', limit);
  refuseMany(calls, 'tool calls', limit);
  refuseMany(input.tools?.length ?? 0, 'tools', limit);
  const written = textsOf([
    input.messages.map((turn) => ({ ...turn, role: '' })),
    input.toolChoice === 'none' ? [] : (input.tools ?? []),
    input.variables ?? {},
  ]);
  for (const text of written) await refuseOverlong(tokenizer, text, limit);
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
function renderOpenEnded(template: ChatTemplate, conversation: RenderedConversation, marks: Marks): string {
  const messages = [...conversation.messages];
  const last = messages.pop();
  if (last?.role !== 'assistant' || last['tool_calls'] !== undefined) {
    throw new ChatError(
      'chat_template_error',
      'Only an assistant message without tool calls can be continued, and it must be the last message.',
    );
  }
  const end = marks.unique();
  const content = `${typeof last.content === 'string' ? last.content : ''}${end}`;
  const rendered = render(template, {
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
function controlTokensIn({ tokenizer }: Model, texts: readonly string[]): ReadonlySet<number> {
  const { pattern, ids } = controlTexts(tokenizer);
  const found = texts.flatMap((text) => text.match(pattern) ?? []);
  const visible = found.map((text) => ids.get(text)).filter((id) => id !== undefined);
  return new Set(visible.filter((id) => !tokenizer.endIds.has(id)));
}
