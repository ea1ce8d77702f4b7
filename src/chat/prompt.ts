import type { ChatMessage, ChatTemplate, Engine, Tokenizer } from '../engine/index.ts';
import { errorMessage } from '../util/error-message.ts';
import type { Marks } from './marks.ts';
import { overlong } from './overlong.ts';
import { ChatError } from './types.ts';

/** What a template is rendered with. */
export interface RenderedConversation {
  readonly messages: readonly ChatMessage[];
  readonly tools?: readonly unknown[];
  readonly variables?: Readonly<Record<string, unknown>>;
  readonly addGenerationPrompt?: boolean;
}

/**
 * The ids of a rendered prompt. What a user wrote never becomes a control token, so nobody forges a turn by writing
 * `<|im_start|>system`: such texts were replaced by marks before the template saw them, and where marks stood the
 * tokenizer reads no control tokens.
 */
export async function encodePrompt(
  { tokenizer, model }: Pick<Engine, 'tokenizer' | 'model'>,
  rendered: string,
  marks: Marks,
): Promise<{ text: string; ids: readonly number[] }> {
  const { text, literal } = marks.restore(rendered);
  await refuseOverlong(tokenizer, text, model.contextLength, { parseSpecial: true });
  const ids = tokenizer.encode(text, { parseSpecial: true, ...(literal.length > 0 ? { literal } : {}) });
  // Leading special tokens only: what the metadata puts behind a text would end the answer before it began.
  return { text, ids: beginsWithBos(tokenizer, rendered) ? ids : [...leadingBos(tokenizer), ...ids] };
}

/** Refuses texts that cannot fit before anything is rendered or encoded as a whole. */
export async function refuseOverlong(
  tokenizer: Tokenizer,
  text: string,
  limit: number,
  options?: { parseSpecial?: boolean },
): Promise<void> {
  const tokens = await overlong(tokenizer, text, limit, options);
  if (tokens !== undefined) throw contextExceeded(limit, `the prompt has about ${tokens}`);
}

/** Every message and every call costs a token at least; rendering ever so many would block everybody else. */
export function refuseMany(count: number, what: string, limit: number): void {
  if (count > limit) throw contextExceeded(limit, `the conversation has ${count} ${what}`);
}

function contextExceeded(limit: number, what: string): ChatError {
  const message = `This model's context holds ${limit} tokens, but ${what}. Shorten the prompt or ask for a shorter answer.`;
  return new ChatError('context_length_exceeded', message);
}

export function render(template: ChatTemplate, conversation: RenderedConversation): string {
  try {
    return template.render({ addGenerationPrompt: true, ...conversation });
  } catch (error) {
    const simpler = conversation.tools?.map(withOneType);
    if (JSON.stringify(simpler) !== JSON.stringify(conversation.tools)) {
      return render(template, { ...conversation, tools: simpler ?? [] });
    }
    // The template's own words: "roles must alternate" and the like are the caller's to mend.
    const why = errorMessage(error);
    throw new ChatError('chat_template_error', `The model's chat template refuses these messages: ${why}`, {
      cause: error,
    });
  }
}

const beginsWithBos = (tokenizer: Tokenizer, prompt: string): boolean =>
  tokenizer.bosId !== undefined && prompt.startsWith(tokenizer.tokenText(tokenizer.bosId));

/** BOS where the model's metadata asks for one. */
function leadingBos(tokenizer: Tokenizer): number[] {
  const [first] = tokenizer.encode('', { addSpecial: true });
  return first !== undefined && first === tokenizer.bosId ? [first] : [];
}

/** Some templates take only one word for a type: of several, the first that is not null. */
function withOneType(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withOneType);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) =>
      key === 'type' && Array.isArray(inner)
        ? [key, (inner.find((one) => one !== 'null') ?? 'null') as unknown]
        : [key, withOneType(inner)],
    ),
  );
}
