import { z } from 'zod';
import { list } from '../../http/schema/list.ts';
import type { Reasoning } from '../core/conversation.ts';
import { omitNullish } from '../core/json.ts';
import { effort, flag, isOneOf, name, refusedMember, text, optionalInteger } from '../core/members.ts';
import { responseFormat } from '../core/output-schema.ts';
import { samplingMembers } from '../core/sampling-schema.ts';
import {
  assistantMembers,
  contentSchema,
  messagesSchema,
  contentPartsSchema,
  refusalPart,
  textPart,
  toolCall,
  toolCalls,
} from './message-schema.ts';
import { isTextOnly } from './server-schema.ts';
import { createToolMembers } from './tools-schema.ts';

const isEmpty = (value: unknown) =>
  typeof value === 'object' && value !== null && Object.keys(value).length === 0;

const cacheMembers = {
  cache_control: z
    .object(
      {
        type: z.literal('ephemeral', { error: "expected 'ephemeral'" }),
        ttl: z.enum(['5m', '1h'], { error: "expected '5m' or '1h'" }).nullish(),
      },
      { error: "expected {type: 'ephemeral'}" },
    )
    .nullish(),
};

const textPartWithCache = textPart.extend(cacheMembers);
const imagePart = z.object({
  type: z.literal('image_url'),
  image_url: z.union(
    [
      z.object({ url: name, detail: z.unknown().optional() }),
      name.transform((url) => ({ url, detail: undefined })),
    ],
    {
      error: 'expected {url}',
    },
  ),
  ...cacheMembers,
});
const filePart = z.object({
  type: z.literal('file'),
  file: z.object(
    {
      file_data: name.nullish(),
      filename: text.nullish(),
      file_id: refusedMember('this gateway stores no files; send file_data'),
    },
    { error: 'expected {file_data, filename}' },
  ),
  ...cacheMembers,
});

const reasoningDetail = z.union([
  z.object({ type: z.literal('reasoning.encrypted'), data: text, id: text.nullish() }),
  z.object({ type: z.literal('reasoning.text'), text: text.nullish(), signature: text.nullish() }),
  // Other types are informational and ignored.
  z.looseObject({ type: text.refine((type) => type !== 'reasoning.encrypted' && type !== 'reasoning.text') }),
]);
export type ReasoningDetail = z.infer<typeof reasoningDetail>;

const signedToolCall = toolCall.extend({
  id: name,
  type: toolCall.shape.type.nullish(),
  extra_content: z
    .object({ google: z.object({ thought_signature: text.nullish() }).nullish() })
    .nullish()
    .catch(undefined),
});

const messages = messagesSchema([
  z.object({
    role: z.literal(['system', 'developer']),
    content: contentSchema(contentPartsSchema([textPartWithCache], 'text')),
    ...cacheMembers,
  }),
  z.object({
    role: z.literal('user'),
    content: contentSchema(
      contentPartsSchema([textPartWithCache, imagePart, filePart], 'text, image_url and file'),
    ),
    ...cacheMembers,
  }),
  z.object({
    ...assistantMembers,
    content: contentSchema(
      contentPartsSchema([textPartWithCache, refusalPart], 'text and refusal'),
    ).nullish(),
    reasoning_details: list(reasoningDetail, { error: 'expected an array of details' }).nullish(),
    tool_calls: toolCalls(signedToolCall),
    ...cacheMembers,
  }),
  z.object({
    role: z.literal('tool'),
    content: contentSchema(contentPartsSchema([textPartWithCache, imagePart], 'text and image_url')),
    tool_call_id: name,
    ...cacheMembers,
  }),
]);
export type ChatMessage = z.infer<typeof messages>[number];

/** Reasoning members of the gateway on OpenAI's wires. */
const effortMembers = {
  reasoning_effort: effort.nullish(),
  reasoning: z
    .object(
      { effort: effort.nullish(), max_tokens: optionalInteger(0) },
      { error: 'expected {effort} or {max_tokens}' },
    )
    .nullish(),
};
export const effortSchema = z.object(effortMembers);

/** A token budget takes precedence over an effort. */
export function readReasoning({
  reasoning,
  reasoning_effort: effortMember,
}: z.infer<typeof effortSchema>): Reasoning | undefined {
  const maxTokens = reasoning?.max_tokens ?? undefined;
  const requestedEffort = reasoning?.effort ?? (maxTokens === undefined ? effortMember : undefined);
  return requestedEffort || maxTokens !== undefined
    ? omitNullish({ effort: requestedEffort, maxTokens })
    : undefined;
}

const { temperature, top_p, stop, presence_penalty, frequency_penalty } = samplingMembers;
const textOnlyError = 'this model generates text only; leave it out';
const olderFormError = (newer: string) => `the older form is not supported on this model; use ${newer}`;

/** Schema of a request whose members are all understood; hints that only concern the provider are dropped. */
export const chatRequest = z.object({
  messages,
  ...createToolMembers(name, cacheMembers),
  max_completion_tokens: optionalInteger(1),
  max_tokens: optionalInteger(1),
  temperature,
  top_p,
  top_k: optionalInteger(0),
  seed: z.int({ error: 'expected a whole number' }).nullish(),
  stop,
  presence_penalty,
  frequency_penalty,
  logprobs: flag.nullish(),
  top_logprobs: optionalInteger(0, 20),
  ...effortMembers,
  response_format: responseFormat.nullish(),
  user: text.nullish(),
  safety_identifier: text.nullish(),
  n: refusedMember('this model generates one answer per request; send several requests', isOneOf(1)),
  functions: refusedMember(olderFormError('tools'), isEmpty),
  function_call: refusedMember(olderFormError('tool_choice'), isOneOf('auto', 'none')),
  logit_bias: refusedMember('this model does not support logit_bias; leave it out', isEmpty),
  audio: refusedMember(textOnlyError),
  modalities: refusedMember(textOnlyError, isTextOnly),
  web_search_options: z.looseObject({}, { error: 'expected an object' }).nullish(),
});
export type ChatRequest = z.infer<typeof chatRequest>;

/** Members that the gateway reads before it selects a provider. */
export const routedMembers = {
  model: name.describe('An id of GET /v1/models, an alias, PROVIDER/ID, a deployment, or KIND:SLUG/MODEL.'),
  stream: flag.nullish().describe('Send the answer as server-sent events.'),
  stream_options: z.looseObject({ include_usage: flag.nullish() }, { error: 'expected an object' }).nullish(),
};

type Routed = z.infer<z.ZodObject<typeof routedMembers>>;
export const routedFacts = ({ model, stream, stream_options: options }: Routed) => ({
  model,
  stream: stream ?? false,
  includeUsage: options?.include_usage ?? false,
});

export const chatBody = chatRequest.extend(routedMembers).meta({
  id: 'ChatCompletionRequest',
  description:
    'For models of every provider. Further members are passed through unchanged to providers of the same wire.',
});
