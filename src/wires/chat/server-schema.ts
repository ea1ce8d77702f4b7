import type { z } from 'zod';
import { jsonObject } from '../../http/schema/json-object.ts';
import {
  isEmptyList,
  flag,
  foreignMember,
  isOneOf,
  refusedMember,
  requestBodySchema,
  text,
  verbosity,
  optionalInteger,
} from '../core/members.ts';
import { messages } from './message-schema.ts';
import { outputMembers } from '../core/output-schema.ts';
import { reasoningMembers } from './reasoning-schema.ts';
import {
  answerCount,
  unsupportedMember,
  peerMembers,
  samplingMembers,
  streamMembers,
} from '../core/sampling-schema.ts';
import { toolMembers } from './tools-schema.ts';

export const isTextOnly = (value: unknown) =>
  Array.isArray(value) && value.every((modality) => modality === 'text');

export const chatRequest = requestBodySchema('ChatCompletionRequest', {
  model: text.nullish().describe('The id of the resident model, from GET /v1/models. Default: that model.'),
  messages: messages.describe(
    'The conversation so far, text only. A last message of the assistant is followed by a new turn.',
  ),
  max_completion_tokens: optionalInteger(1).describe(
    'Maximum tokens of the answer, reasoning included. Default: the remaining context; less for very many answers.',
  ),
  max_tokens: optionalInteger(1).describe('Older name of `max_completion_tokens`, which takes precedence.'),
  n: answerCount,
  ...samplingMembers,
  ...streamMembers,
  logprobs: flag.nullish().describe('Report the log probability of each token of the answer.'),
  top_logprobs: optionalInteger(0, 20).describe(
    'With `logprobs`: number of most likely tokens to report at each position.',
  ),
  ...toolMembers,
  ...outputMembers,
  ...reasoningMembers,
  chat_template_kwargs: jsonObject('expected an object')
    .nullish()
    .describe("Additional variables of the model's chat template."),
  add_generation_prompt: flag
    .nullish()
    .describe("false: the last message is the assistant's, and the answer continues it. Default true."),
  continue_final_message: flag.nullish().describe('true: same as `add_generation_prompt: false`.'),
  ...peerMembers,
  functions: refusedMember('the older form is not supported; use `tools`', isEmptyList),
  function_call: refusedMember('the older form is not supported; use `tool_choice`', isOneOf('none', 'auto')),
  format: foreignMember('response_format', isOneOf('')),
  modalities: unsupportedMember('a modality other than text', isTextOnly),
  audio: unsupportedMember('audio'),
  verbosity,
  web_search_options: unsupportedMember('searching the web'),
  moderation: unsupportedMember('moderation'),
  best_of: unsupportedMember('best_of', isOneOf(1)),
  echo: unsupportedMember('echo', isOneOf(false)),
  chat_template: unsupportedMember("a chat_template other than the model's"),
  documents: unsupportedMember('documents', isEmptyList),
});
export type ChatRequest = z.infer<typeof chatRequest>;
