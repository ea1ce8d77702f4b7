import type { ChatMessage, ChatTemplate, Engine, Tokenizer } from '../engine/index.ts';
import { overlong } from './overlong.ts';
import { ChatError } from './types.ts';

/** What a template is rendered with. */
export interface RenderedConversation {
  readonly messages: readonly ChatMessage[];
  readonly tools?: readonly unknown[];
  readonly variables?: Readonly<Record<string, unknown>>;
}

/**
 * The prompt of a conversation: its text, and its token ids.
 *
 * What a user wrote never becomes a special token, so nobody forges a turn by writing `<|im_start|>system`. An ordinary
 * conversation is rendered and encoded in one go. Where a message holds the text of a special token, that text is
 * replaced by a mark that cannot be guessed, the template renders (and trims, and inspects) the marked messages, and
 * the result is cut at the special tokens, which now are all the template's own; between them the marks become text again.
 */
export async function chatPrompt(
  engine: Pick<Engine, 'tokenizer' | 'chatTemplate' | 'model'>,
  conversation: RenderedConversation,
): Promise<{ text: string; ids: readonly number[] }> {
  const { tokenizer, chatTemplate } = engine;
  if (!chatTemplate) {
    throw new ChatError('no_chat_template', 'This model has no chat template; use POST /v1/completions.');
  }
  const limit = engine.model.contextLength;
  const { messages } = conversation;
  const refuseOverlong = async (text: string, options?: { parseSpecial?: boolean }) => {
    const tokens = await overlong(tokenizer, text, limit, options);
    if (tokens !== undefined) throw contextExceeded(limit, `the prompt has about ${tokens}`);
  };
  const written = [...messages, ...(conversation.tools ?? [])].flatMap((one) =>
    Object.entries(one as object).flatMap(([key, value]) => (key === 'role' ? [] : texts(value))),
  );
  for (const text of written) await refuseOverlong(text);

  const special = specialTexts(tokenizer);
  if (!written.some((text) => text.search(special.pattern) !== -1)) {
    const text = render(chatTemplate, conversation);
    await refuseOverlong(text, { parseSpecial: true });
    const addSpecial = !beginsWithBos(tokenizer, text);
    return { text, ids: tokenizer.encode(text, { parseSpecial: true, addSpecial }) };
  }

  const marks = new Marks();
  const mark = (text: string) => text.replaceAll(special.pattern, (token) => marks.put(token));
  const marked = messages.map((message) => ({
    ...(mapTexts(message, mark) as ChatMessage),
    role: message.role,
  }));
  const tools = conversation.tools ? { tools: mapTexts(conversation.tools, mark) as unknown[] } : {};
  const prompt = render(chatTemplate, { ...conversation, ...tools, messages: marked });
  const text = marks.restore(prompt);
  await refuseOverlong(text, { parseSpecial: true });
  const ids: number[] = [];
  if (!beginsWithBos(tokenizer, prompt)) ids.push(...leadingBos(tokenizer));
  let end = 0;
  const addText = (piece: string) => {
    if (piece !== '') ids.push(...tokenizer.encode(marks.restore(piece)));
  };
  for (const found of prompt.matchAll(special.pattern)) {
    addText(prompt.slice(end, found.index));
    ids.push(special.ids.get(found[0]) ?? 0);
    end = found.index + found[0].length;
  }
  addText(prompt.slice(end));
  return { text, ids };
}

/** Every message and every call costs a token at least; rendering ever so many would block everybody else. */
export function refuseMany(count: number, what: string, limit: number): void {
  if (count > limit) throw contextExceeded(limit, `the conversation has ${count} ${what}`);
}

function contextExceeded(limit: number, what: string): ChatError {
  const message = `This model's context holds ${limit} tokens, but ${what}. Shorten the prompt or ask for a shorter answer.`;
  return new ChatError('context_length_exceeded', message);
}

function render(template: ChatTemplate, conversation: RenderedConversation): string {
  try {
    return template.render({ ...conversation, addGenerationPrompt: true });
  } catch (error) {
    // The template's own words: "roles must alternate" and the like are the caller's to mend.
    const why = error instanceof Error ? error.message : String(error);
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

interface SpecialTexts {
  readonly pattern: RegExp;
  readonly ids: ReadonlyMap<string, number>;
}
const specialTextsOf = new WeakMap<Tokenizer, SpecialTexts>();

/** Every special token's text, longest first as the tokenizer matches them; once a tokenizer. */
function specialTexts(tokenizer: Tokenizer): SpecialTexts {
  const known = specialTextsOf.get(tokenizer);
  if (known) return known;
  const ids = new Map<string, number>();
  for (let id = 0; id < tokenizer.vocabSize; id++) {
    if (tokenizer.isControl(id) && tokenizer.tokenText(id) !== '') ids.set(tokenizer.tokenText(id), id);
  }
  const longestFirst = [...ids.keys()].sort((a, b) => b.length - a.length);
  const alternatives = longestFirst.map((text) => text.replaceAll(/[\\^$.*+?()[\]{}|/-]/g, '\\$&')).join('|');
  const found = { ids, pattern: new RegExp(alternatives === '' ? '(?!)' : alternatives, 'g') };
  specialTextsOf.set(tokenizer, found);
  return found;
}

/** Stand-ins for texts: private-use characters around digits, which no template changes and nobody can guess. */
class Marks {
  readonly #nonce = crypto.getRandomValues(new Uint32Array(4)).join('');
  readonly #texts: string[] = [];

  put(text: string): string {
    return `\uE000${this.#nonce}.${this.#texts.push(text) - 1}\uE001`;
  }

  restore(text: string): string {
    return text.replaceAll(
      new RegExp(`\uE000${this.#nonce}\\.(\\d+)\uE001`, 'g'),
      (_, index: string) => this.#texts[Number(index)] ?? '',
    );
  }
}

function texts(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) => [key, ...texts(inner)]);
}

function mapTexts(value: unknown, change: (text: string) => string): unknown {
  if (typeof value === 'string') return change(value);
  if (Array.isArray(value)) return value.map((inner) => mapTexts(inner, change));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [change(key), mapTexts(inner, change)]),
  );
}
