import type { ChatMessage, ChatTemplate, Engine, Tokenizer } from '../engine/index.ts';
import { errorMessage } from '../util/error-message.ts';
import type { ControlTextEscaper } from './control-text-escaper.ts';
import { estimateTokensOverLimit } from './estimate-tokens.ts';
import { ChatError } from './types.ts';

/** The input of a chat template. */
export interface TemplateInput {
  readonly messages: readonly ChatMessage[];
  readonly tools?: readonly unknown[];
  readonly variables?: Readonly<Record<string, unknown>>;
  readonly addGenerationPrompt?: boolean;
}

/**
 * Encodes a rendered prompt. User input never becomes a control token, so a user cannot forge a message by writing
 * `<|im_start|>system`: the escaper replaced such texts before rendering, and the tokenizer does not recognize control
 * tokens in the ranges that the escaper restored.
 */
export async function encodePrompt(
  { tokenizer, model }: Pick<Engine, 'tokenizer' | 'model'>,
  rendered: string,
  escaper: ControlTextEscaper,
): Promise<{ text: string; ids: readonly number[] }> {
  const { text, literal } = escaper.unescape(rendered);
  await rejectOverlongText(tokenizer, text, model.contextLength, { parseSpecial: true });
  const ids = tokenizer.encode(text, { parseSpecial: true, ...(literal.length > 0 ? { literal } : {}) });
  // Only leading special tokens: trailing ones would end the answer before it starts.
  return { text, ids: startsWithBos(tokenizer, rendered) ? ids : [...leadingBosIds(tokenizer), ...ids] };
}

/** Rejects a text that cannot fit into the context, without encoding it as a whole. */
export async function rejectOverlongText(
  tokenizer: Tokenizer,
  text: string,
  limit: number,
  options?: { parseSpecial?: boolean },
): Promise<void> {
  const tokens = await estimateTokensOverLimit(tokenizer, text, limit, options);
  if (tokens !== undefined) throw createContextError(limit, `the prompt has about ${tokens}`);
}

/**
 * Rejects more items than the context has tokens: each takes at least one, and rendering many blocks other requests.
 */
export function rejectTooMany(count: number, what: string, limit: number): void {
  if (count > limit) throw createContextError(limit, `the conversation has ${count} ${what}`);
}

function createContextError(limit: number, what: string): ChatError {
  const message = `This model's context holds ${limit} tokens, but ${what}. Shorten the prompt or ask for a shorter answer.`;
  return new ChatError('context_length_exceeded', message);
}

export function renderPrompt(template: ChatTemplate, input: TemplateInput): string {
  try {
    return template.render({ addGenerationPrompt: true, ...input });
  } catch (error) {
    const simplifiedTools = input.tools?.map(withSingleTypes);
    if (JSON.stringify(simplifiedTools) !== JSON.stringify(input.tools)) {
      return renderPrompt(template, { ...input, tools: simplifiedTools ?? [] });
    }
    // Pass on the template's message, such as "roles must alternate", because the client has to fix it.
    const reason = errorMessage(error);
    throw new ChatError(
      'chat_template_error',
      `The model's chat template rejects these messages: ${reason}`,
      {
        cause: error,
      },
    );
  }
}

const startsWithBos = (tokenizer: Tokenizer, prompt: string): boolean =>
  tokenizer.bosId !== undefined && prompt.startsWith(tokenizer.tokenText(tokenizer.bosId));

/** The BOS token if the model's metadata requires one. */
function leadingBosIds(tokenizer: Tokenizer): number[] {
  const [first] = tokenizer.encode('', { addSpecial: true });
  return first !== undefined && first === tokenizer.bosId ? [first] : [];
}

/** Replaces every array of schema types by its first type that is not null. Some templates accept only one type. */
function withSingleTypes(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withSingleTypes);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) =>
      key === 'type' && Array.isArray(inner)
        ? [key, (inner.find((one) => one !== 'null') ?? 'null') as unknown]
        : [key, withSingleTypes(inner)],
    ),
  );
}
