import { z } from 'zod';
import { isRecord, type Json } from '../../util/json.ts';
import { kindOf } from '../core/json.ts';
import { whole } from '../core/members.ts';
import { Violations } from '../core/violations.ts';
import type { RequestFacts } from '../core/wire.ts';
import { unknownSize } from '../core/measure.ts';
import { answerCount } from '../core/sampling-schema.ts';
import { ChatMeasure } from './measure.ts';
import { routedFacts, routedMembers } from './request-schema.ts';

const asked = z.object({
  ...routedMembers,
  max_completion_tokens: whole(1),
  max_tokens: whole(1),
  n: answerCount,
});

/** Reads what the gateway needs to know of a request; the provider checks the rest. @throws WireError 400 */
export function factsOf(body: Json): RequestFacts {
  const faults = new Violations();
  const tools = [...faults.list(body['tools'], 'tools'), ...faults.list(body['functions'], 'functions')];
  const messages = messagesOf(body, faults);
  const said = faults.read(asked, body) ?? { model: '' };
  faults.throwAny();

  const measure = new ChatMeasure();
  for (const message of messages) measure.message(message);
  for (const tool of tools) measure.json(tool);
  const { response_format: format, prediction } = body;
  if (isRecord(format)) measure.json(format);
  if (isRecord(prediction)) measure.json(prediction);
  // Search results become part of the input.
  for (const member of ['web_search_options', 'search_parameters', 'plugins'])
    if (isRecord(body[member]) || Array.isArray(body[member])) measure.fileBytes += unknownSize;
  return {
    ...routedFacts(said),
    maxTokens: said.max_completion_tokens ?? said.max_tokens ?? undefined,
    answers: said.n ?? 1,
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
