import type { TranscriptEntry, TraceSpan } from '../tracing/index.ts';

/** Conversation content in the format of the GenAI semantic conventions: JSON texts by attribute name. */
export type Content = Readonly<Record<string, string>>;

/** Limit of one attribute, in characters: spans are queued in memory while the collector is unavailable. */
const maxContentLength = 16_384;
/**
 * Only the beginning of a longer text is redacted. This many characters at its end are then dropped, because a secret that
 * was cut there would not be recognized.
 */
const redactionMargin = 8_192;
/** Limit of redacted text: several times the attribute limit, because a long answer may have several parts. */
const maxRedactedLength = 4 * maxContentLength;
/** Marks a shortened text. */
const ellipsis = '…';

interface MessagePart {
  readonly type: 'text' | 'reasoning' | 'tool_call' | 'tool_call_response';
  readonly [member: string]: string;
}
interface SemconvMessage {
  readonly role: 'system' | 'user' | 'assistant' | 'tool';
  readonly parts: MessagePart[];
  readonly finish_reason?: string;
}

/** Builds the content attributes of a span. @param redact applied to each text first */
export function toContentAttributes(
  { kind, transcript = [], attributes: facts }: TraceSpan,
  redact: (text: string) => string,
): Content {
  if (transcript.length === 0) return {};
  const redactAndShorten = createRedactor(redact);
  if (kind === 'tool') return toolContent(transcript, redactAndShorten);
  const inputLength =
    transcript.findLastIndex(({ role }) => role === 'system' || role === 'user' || role === 'tool') + 1;
  const finish = ('finish' in facts ? facts.finish : undefined) ?? 'stop';
  const input = toMessages(latestEntries(transcript.slice(0, inputLength), redactAndShorten));
  const output = toMessages(latestEntries(transcript.slice(inputLength), redactAndShorten));
  return {
    ...(input.length > 0 && { 'gen_ai.input.messages': serializeLatest(input) }),
    ...(output.length > 0 && {
      'gen_ai.output.messages': serializeLatest(
        output.map((message) => ({ ...message, finish_reason: finish })),
      ),
    }),
  };
}

function toolContent(
  transcript: readonly TranscriptEntry[],
  redactAndShorten: (text: string) => string,
): Content {
  const call = transcript.find(({ role }) => role === 'tool_call');
  const result = transcript.findLast(({ role }) => role === 'tool');
  return {
    ...(call && { 'gen_ai.tool.call.arguments': redactAndShorten(call.text) }),
    ...(result && { 'gen_ai.tool.call.result': redactAndShorten(result.text) }),
  };
}

/** Order of the parts of one assistant message: reasoning, then text, then tool calls. */
const partOrder: Readonly<Record<TranscriptEntry['role'], number>> = {
  system: 0,
  user: 0,
  tool: 0,
  reasoning: 1,
  assistant: 2,
  tool_call: 3,
};

/** The latest entries, redacted. The beginning of a long conversation would not fit the attribute. */
function latestEntries(
  transcript: readonly TranscriptEntry[],
  redactAndShorten: (text: string) => string,
): TranscriptEntry[] {
  const collected: TranscriptEntry[] = [];
  let length = 0;
  for (const { at, role, text, name = '' } of transcript.toReversed()) {
    if (length > maxRedactedLength) break;
    const one = { at, role, text: redactAndShorten(text), name: redactAndShorten(name) };
    collected.push(one);
    length += one.text.length;
  }
  return collected.reverse();
}

function toMessages(transcript: readonly TranscriptEntry[]): SemconvMessage[] {
  const messages: SemconvMessage[] = [];
  let lastPosition = 0;
  for (const { role, text, name = '' } of transcript) {
    const position = partOrder[role];
    const part = toPart(role, text, name);
    const open = messages.at(-1);
    const continuesMessage =
      position > 0 &&
      lastPosition > 0 &&
      (position > lastPosition || (position === lastPosition && role === 'tool_call'));
    if (continuesMessage && open) open.parts.push(part);
    else messages.push({ role: messageRoleOf(role), parts: [part] });
    lastPosition = position;
  }
  return messages;
}

const messageRoleOf = (role: TranscriptEntry['role']): SemconvMessage['role'] =>
  role === 'reasoning' || role === 'tool_call' ? 'assistant' : role;

function toPart(role: TranscriptEntry['role'], text: string, name: string): MessagePart {
  if (role === 'reasoning') return { type: 'reasoning', content: text };
  // Arguments stay text: parsing the JSON would unescape secrets after redaction.
  if (role === 'tool_call') return { type: 'tool_call', name, arguments: text };
  if (role === 'tool') return { type: 'tool_call_response', response: text };
  return { type: 'text', content: text };
}

/** Creates a function that redacts a text and then shortens it, in this order. */
function createRedactor(redact: (text: string) => string): (text: string) => string {
  return (text) => {
    const isWithinLimit = text.length <= maxContentLength + redactionMargin;
    const redactAndShorten = redact(isWithinLimit ? text : text.slice(0, maxContentLength + redactionMargin));
    if (isWithinLimit && redactAndShorten.length <= maxContentLength) return redactAndShorten;
    const maxLength = isWithinLimit
      ? maxContentLength
      : Math.min(maxContentLength, redactAndShorten.length - redactionMargin);
    return `${redactAndShorten.slice(0, Math.max(0, maxLength)).toWellFormed()}${ellipsis}`;
  };
}

/** Serializes the latest messages that fit. If not even the last one fits, its texts are shortened. */
function serializeLatest(messages: readonly SemconvMessage[]): string {
  const collected: string[] = [];
  let remaining = maxContentLength;
  for (const message of messages.toReversed()) {
    const serialized = JSON.stringify(message);
    if (serialized.length > remaining) {
      if (collected.length === 0) collected.push(JSON.stringify(shortenMessage(message, remaining)));
      break;
    }
    collected.push(serialized);
    remaining -= serialized.length + 1;
  }
  return `[${collected.toReversed().join(',')}]`;
}

function shortenMessage(message: SemconvMessage, maxLength: number): SemconvMessage {
  // Half of the limit, because JSON escapes take more characters.
  const lengthPerText = Math.floor(maxLength / 2 / message.parts.length);
  const shortenText = (text: string) =>
    text.length <= lengthPerText ? text : `${text.slice(0, lengthPerText).toWellFormed()}${ellipsis}`;
  const parts = message.parts.map(
    (part) =>
      Object.fromEntries(
        Object.entries(part).map(([key, text]) => [key, shortenText(text)]),
      ) as unknown as MessagePart,
  );
  return { ...message, parts };
}
