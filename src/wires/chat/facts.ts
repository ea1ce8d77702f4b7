import { isRecord, type Json } from '../../util/json.ts';
import { kindOf } from '../core/json.ts';
import { Violations } from '../core/violations.ts';
import type { RequestFacts } from '../core/wire.ts';
import { unknownSize } from '../core/measure.ts';
import { ChatMeasure } from './measure.ts';

export const mostAnswers = 128;

/** What the gateway has to know of a request before anything else; all else is the provider's to judge. @throws WireError 400 */
export function factsOf(body: Json): RequestFacts {
  const faults = new Violations();
  const tools = [...faults.list(body['tools'], 'tools'), ...faults.list(body['functions'], 'functions')];
  const messages = messagesOf(body, faults);
  const base = {
    ...commonFacts(body, faults),
    maxTokens: limitOf(body, faults),
    answers: faults.number(body['n'], 'n', { least: 1, most: mostAnswers, whole: true }) ?? 1,
  };
  faults.throwAny();

  const measure = new ChatMeasure();
  for (const message of messages) measure.message(message);
  for (const tool of tools) measure.json(tool);
  const { response_format: format, prediction } = body;
  if (isRecord(format)) measure.json(format);
  if (isRecord(prediction)) measure.json(prediction);
  // What a search finds is read, too.
  for (const member of ['web_search_options', 'search_parameters', 'plugins'])
    if (isRecord(body[member]) || Array.isArray(body[member])) measure.fileBytes += unknownSize;
  return {
    ...base,
    needs: [
      ...(tools.length > 0
        ? [{ cap: 'tools', param: isList(body['tools']) ? 'tools' : 'functions' } as const]
        : []),
      ...(measure.images > 0 ? [{ cap: 'images', param: 'messages' } as const] : []),
      ...(isRecord(format) && format['type'] !== 'text'
        ? [{ cap: 'structured_output', param: 'response_format' } as const]
        : []),
    ],
    ...measure.counts,
  };
}

const isList = (value: unknown) => Array.isArray(value) && value.length > 0;

function messagesOf({ messages }: Json, faults: Violations): readonly unknown[] {
  if (Array.isArray(messages) && messages.length > 0) {
    (messages as unknown[]).forEach((message, index) => {
      if (!isRecord(message) || typeof message['role'] !== 'string')
        faults.add(`messages.${index}`, 'expected a message such as {role, content}');
    });
    return messages as unknown[];
  }
  const came = Array.isArray(messages) ? 'an empty one' : kindOf(messages);
  faults.add('messages', `expected an array of at least one message, got ${came}`);
  return [];
}

/** The same on both of OpenAI's older wires. */
export function commonFacts(
  body: Json,
  faults: Violations,
): Pick<RequestFacts, 'model' | 'stream' | 'includeUsage'> {
  const options = faults.record(body['stream_options'], 'stream_options');
  return {
    model: faults.name(body['model'], 'model'),
    stream: faults.flag(body['stream'], 'stream') ?? false,
    includeUsage: faults.flag(options?.['include_usage'], 'stream_options.include_usage') ?? false,
  };
}

/** `max_completion_tokens` is the newer name and wins. */
function limitOf(body: Json, faults: Violations): number | undefined {
  const [newer, older] = ['max_completion_tokens', 'max_tokens'].map((name) =>
    faults.number(body[name], name, { least: 1, whole: true }),
  );
  return newer ?? older;
}
