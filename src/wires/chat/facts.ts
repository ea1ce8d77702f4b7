import { z } from 'zod';
import { isRecord, type Json } from '../../util/json.ts';
import { describeType } from '../core/json.ts';
import { optionalInteger } from '../core/members.ts';
import { Violations } from '../core/violations.ts';
import type { RequestFacts } from '../core/wire.ts';
import { unknownSizeBytes } from '../core/input-counter.ts';
import { answerCount } from '../core/sampling-schema.ts';
import { ChatInputCounter } from './chat-input-counter.ts';
import { routedFacts, routedMembers } from './request-schema.ts';

const factsSchema = z.object({
  ...routedMembers,
  max_completion_tokens: optionalInteger(1),
  max_tokens: optionalInteger(1),
  n: answerCount,
});

/** Reads what the gateway needs to know of a request; the provider checks the rest. @throws WireError 400 */
export function readFacts(body: Json): RequestFacts {
  const violations = new Violations();
  const tools = [
    ...violations.list(body['tools'], 'tools'),
    ...violations.list(body['functions'], 'functions'),
  ];
  const messages = checkMessages(body, violations);
  const members = violations.parse(factsSchema, body) ?? { model: '' };
  violations.throwIfAny();

  const counter = new ChatInputCounter();
  for (const message of messages) counter.addMessage(message);
  for (const tool of tools) counter.addJson(tool);
  const { response_format: format, prediction } = body;
  if (isRecord(format)) counter.addJson(format);
  if (isRecord(prediction)) counter.addJson(prediction);
  // Search results become part of the input.
  for (const member of ['web_search_options', 'search_parameters', 'plugins'])
    if (isRecord(body[member]) || Array.isArray(body[member])) counter.fileBytes += unknownSizeBytes;
  return {
    ...routedFacts(members),
    maxTokens: members.max_completion_tokens ?? members.max_tokens ?? undefined,
    answers: members.n ?? 1,
    needs: [
      ...(tools.length > 0
        ? [{ cap: 'tools', param: isNonEmptyList(body['tools']) ? 'tools' : 'functions' } as const]
        : []),
      ...(counter.images > 0 ? [{ cap: 'images', param: 'messages' } as const] : []),
      ...(isRecord(format) && format['type'] !== 'text'
        ? [{ cap: 'structured_output', param: 'response_format' } as const]
        : []),
    ],
    ...counter.counts,
    ...readMedia(body, counter),
    ...(isRecord(body['web_search_options'])
      ? { hostedTools: [{ tool: 'web_search', param: 'web_search_options' }] }
      : {}),
    serviceTier: body['service_tier'],
  };
}

function readMedia({ modalities, audio }: Json, counter: ChatInputCounter): Pick<RequestFacts, 'media'> {
  const answers = Array.isArray(modalities) ? (modalities as unknown[]) : [];
  const media: NonNullable<RequestFacts['media']> = [
    ...(counter.hasAudio ? (['audio_input'] as const) : []),
    ...(answers.includes('audio') || isRecord(audio) ? (['audio_output'] as const) : []),
    ...(answers.includes('image') ? (['image_output'] as const) : []),
  ];
  return media.length > 0 ? { media } : {};
}

const isNonEmptyList = (value: unknown) => Array.isArray(value) && value.length > 0;

function checkMessages({ messages }: Json, violations: Violations): readonly unknown[] {
  if (Array.isArray(messages) && messages.length > 0) {
    (messages as unknown[]).forEach((message, index) => {
      if (!isRecord(message) || typeof message['role'] !== 'string')
        violations.add(`messages.${index}`, 'expected a message such as {role, content}');
    });
    return messages as unknown[];
  }
  const received = Array.isArray(messages) ? 'an empty one' : describeType(messages);
  violations.add('messages', `expected an array of at least one message, got ${received}`);
  return [];
}
