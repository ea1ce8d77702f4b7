import type { Said, Work } from '../watch/index.ts';

/** Conversation content in the format of the GenAI semantic conventions: JSON texts by attribute name. */
export type Content = Readonly<Record<string, string>>;

/** Limit of one attribute, in characters: spans are queued in memory while the collector is unavailable. */
const longestContent = 16_384;
/**
 * Only the beginning of a longer text is redacted. This many characters at its end are then dropped, because a secret that
 * was cut there would not be recognized.
 */
const margin = 8_192;
/** Limit of redacted text: several times the attribute limit, because a long answer may have several parts. */
const mostCleaned = 4 * longestContent;
/** Marks a shortened text. */
const cut = '…';

interface Part {
  readonly type: 'text' | 'reasoning' | 'tool_call' | 'tool_call_response';
  readonly [member: string]: string;
}
interface Message {
  readonly role: 'system' | 'user' | 'assistant' | 'tool';
  readonly parts: Part[];
  readonly finish_reason?: string;
}

/** Builds the content attributes of a span. @param redact applied to each text first */
export function contentOf({ kind, said = [], facts }: Work, redact: (text: string) => string): Content {
  if (said.length === 0) return {};
  const clean = cleaner(redact);
  if (kind === 'tool') return toolContent(said, clean);
  const asked = said.findLastIndex(({ role }) => role === 'system' || role === 'user' || role === 'tool') + 1;
  const finish = ('finish' in facts ? facts.finish : undefined) ?? 'stop';
  const input = messagesOf(latest(said.slice(0, asked), clean));
  const output = messagesOf(latest(said.slice(asked), clean));
  return {
    ...(input.length > 0 && { 'gen_ai.input.messages': fitted(input) }),
    ...(output.length > 0 && {
      'gen_ai.output.messages': fitted(output.map((message) => ({ ...message, finish_reason: finish }))),
    }),
  };
}

function toolContent(said: readonly Said[], clean: (text: string) => string): Content {
  const arguments_ = said.find(({ role }) => role === 'tool_call');
  const result = said.findLast(({ role }) => role === 'tool');
  return {
    ...(arguments_ && { 'gen_ai.tool.call.arguments': clean(arguments_.text) }),
    ...(result && { 'gen_ai.tool.call.result': clean(result.text) }),
  };
}

/** Order of the parts of one assistant message: reasoning, then text, then tool calls. */
const order: Readonly<Record<Said['role'], number>> = {
  system: 0,
  user: 0,
  tool: 0,
  reasoning: 1,
  assistant: 2,
  tool_call: 3,
};

/** The latest entries, redacted. The beginning of a long conversation would not fit the attribute. */
function latest(said: readonly Said[], clean: (text: string) => string): Said[] {
  const kept: Said[] = [];
  let length = 0;
  for (const { at, role, text, name = '' } of said.toReversed()) {
    if (length > mostCleaned) break;
    const one = { at, role, text: clean(text), name: clean(name) };
    kept.push(one);
    length += one.text.length;
  }
  return kept.reverse();
}

function messagesOf(said: readonly Said[]): Message[] {
  const messages: Message[] = [];
  let last = 0;
  for (const { role, text, name = '' } of said) {
    const place = order[role];
    const part = partOf(role, text, name);
    const open = messages.at(-1);
    const goesOn = place > 0 && last > 0 && (place > last || (place === last && role === 'tool_call'));
    if (goesOn && open) open.parts.push(part);
    else messages.push({ role: speakerOf(role), parts: [part] });
    last = place;
  }
  return messages;
}

const speakerOf = (role: Said['role']): Message['role'] =>
  role === 'reasoning' || role === 'tool_call' ? 'assistant' : role;

function partOf(role: Said['role'], text: string, name: string): Part {
  if (role === 'reasoning') return { type: 'reasoning', content: text };
  // Arguments stay text: parsing the JSON would unescape secrets after redaction.
  if (role === 'tool_call') return { type: 'tool_call', name, arguments: text };
  if (role === 'tool') return { type: 'tool_call_response', response: text };
  return { type: 'text', content: text };
}

/** Creates a function that redacts a text and then shortens it, in this order. */
function cleaner(redact: (text: string) => string): (text: string) => string {
  return (text) => {
    const within = text.length <= longestContent + margin;
    const clean = redact(within ? text : text.slice(0, longestContent + margin));
    if (within && clean.length <= longestContent) return clean;
    const most = within ? longestContent : Math.min(longestContent, clean.length - margin);
    return `${clean.slice(0, Math.max(0, most)).toWellFormed()}${cut}`;
  };
}

/** Serializes the latest messages that fit. If not even the last one fits, its texts are shortened. */
function fitted(messages: readonly Message[]): string {
  const kept: string[] = [];
  let left = longestContent;
  for (const message of messages.toReversed()) {
    const written = JSON.stringify(message);
    if (written.length > left) {
      if (kept.length === 0) kept.push(JSON.stringify(shortened(message, left)));
      break;
    }
    kept.push(written);
    left -= written.length + 1;
  }
  return `[${kept.toReversed().join(',')}]`;
}

function shortened(message: Message, most: number): Message {
  // Half of the limit, because JSON escapes take more characters.
  const each = Math.floor(most / 2 / message.parts.length);
  const short = (text: string) =>
    text.length <= each ? text : `${text.slice(0, each).toWellFormed()}${cut}`;
  const parts = message.parts.map(
    (part) =>
      Object.fromEntries(Object.entries(part).map(([key, text]) => [key, short(text)])) as unknown as Part,
  );
  return { ...message, parts };
}
