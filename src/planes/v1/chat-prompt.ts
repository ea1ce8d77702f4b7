import { randomInt } from 'node:crypto';
import type { ChatMessage, ChatTemplate, Engine, Tokenizer } from '../../engine/index.ts';
import { Problem } from '../problem.ts';
import type { ContentPart, Message } from './chat-schema.ts';
import { contextExceeded, refuseOverlong } from './encode.ts';

/**
 * The prompt of a conversation, as token ids.
 *
 * What a user wrote never becomes a special token, so nobody forges a turn by writing `<|im_start|>system`. An ordinary
 * conversation is rendered and encoded in one go. Where a message holds the text of a special token, that text is
 * replaced by a mark that cannot be guessed, the template renders (and trims, and inspects) the marked messages, and
 * the result is cut at the special tokens, which now are all the template's own; between them the marks become text again.
 */
export async function chatPrompt(
  engine: Pick<Engine, 'tokenizer' | 'chatTemplate' | 'model'>,
  conversation: readonly Message[],
): Promise<readonly number[]> {
  const { tokenizer, chatTemplate } = engine;
  if (!chatTemplate) {
    throw new Problem(400, 'no_chat_template', 'This model has no chat template; use POST /v1/completions.');
  }
  // Every message and every call costs a token at least; rendering ever so many would block everybody else.
  const limit = engine.model.contextLength;
  const calls = conversation.reduce((sum, message) => sum + callsOf(message).length, 0);
  for (const [count, what] of [
    [conversation.length, 'messages'],
    [calls, 'tool calls'],
  ] as const) {
    if (count > limit) throw contextExceeded(limit, `the conversation has ${count} ${what}`, 'messages');
  }
  const messages = conversation.map(toTemplateMessage);
  const written = messages.flatMap((message) =>
    Object.entries(message).flatMap(([key, value]) => (key === 'role' ? [] : texts(value))),
  );
  for (const text of written) await refuseOverlong(tokenizer, text, limit, 'messages');

  const special = specialTexts(tokenizer);
  if (!written.some((text) => text.search(special.pattern) !== -1)) {
    const prompt = render(chatTemplate, messages);
    await refuseOverlong(tokenizer, prompt, limit, 'messages', { parseSpecial: true });
    return tokenizer.encode(prompt, { parseSpecial: true, addSpecial: !beginsWithBos(tokenizer, prompt) });
  }

  const marks = new Marks();
  const marked = messages.map((message) => ({
    ...(mapTexts(message, (text) =>
      text.replaceAll(special.pattern, (token) => marks.put(token)),
    ) as ChatMessage),
    role: message.role,
  }));
  const prompt = render(chatTemplate, marked);
  await refuseOverlong(tokenizer, marks.restore(prompt), limit, 'messages', { parseSpecial: true });
  const ids: number[] = [];
  if (!beginsWithBos(tokenizer, prompt)) ids.push(...leadingBos(tokenizer));
  let end = 0;
  const addText = (text: string) => {
    if (text !== '') ids.push(...tokenizer.encode(marks.restore(text)));
  };
  for (const found of prompt.matchAll(special.pattern)) {
    addText(prompt.slice(end, found.index));
    ids.push(special.ids.get(found[0]) ?? 0);
    end = found.index + found[0].length;
  }
  addText(prompt.slice(end));
  return ids;
}

function render(template: ChatTemplate, messages: readonly ChatMessage[]): string {
  try {
    return template.render({ messages, addGenerationPrompt: true });
  } catch (error) {
    // The template's own words: "roles must alternate" and the like are the caller's to mend.
    const why = error instanceof Error ? error.message : String(error);
    throw new Problem(
      400,
      'chat_template_error',
      `The model's chat template refuses these messages: ${why}`,
      { param: 'messages' },
    );
  }
}

/** What templates expect: a system role instead of developer, text instead of parts, arguments as an object. */
function toTemplateMessage(message: Message): ChatMessage {
  const content = plainContent(message.content);
  if (message.role === 'tool') {
    return { role: 'tool', content, ...(message.tool_call_id ? { tool_call_id: message.tool_call_id } : {}) };
  }
  const role = message.role === 'developer' ? 'system' : message.role;
  const name = message.name ? { name: message.name } : {};
  const calls = callsOf(message);
  if (calls.length === 0) return { role, content, ...name };
  const tool_calls = calls.map((call) => ({
    ...call,
    function: { name: call.function.name, arguments: parsedArguments(call.function.arguments) },
  }));
  return { role, content, ...name, tool_calls };
}

const callsOf = (message: Message) => (message.role === 'assistant' ? (message.tool_calls ?? []) : []);

function plainContent(content: string | readonly ContentPart[] | null | undefined): string {
  if (typeof content === 'string') return content;
  return (content ?? []).map((part) => (part.type === 'text' ? part.text : part.refusal)).join('\n');
}

/** Templates want an object; text that is no JSON, or JSON too deep to walk, stays text. */
function parsedArguments(text: string): unknown {
  if ((text.match(/[[{]/g) ?? []).length > 1000) return text;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
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
  readonly #nonce = `${randomInt(2 ** 47)}${randomInt(2 ** 47)}`;
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
