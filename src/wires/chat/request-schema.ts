import { z } from 'zod';
import { list } from '../../http/schema/list.ts';
import type { Reasoning } from '../core/conversation.ts';
import { present } from '../core/json.ts';
import { effort, flag, isOneOf, name, refused, text, whole } from '../core/members.ts';
import { responseFormat } from '../core/output-schema.ts';
import { samplingMembers } from '../core/sampling-schema.ts';
import {
  assistantMembers,
  contentOf,
  messagesOf,
  partsOf,
  refusalPart,
  textPart,
  toolCall,
  toolCalls,
} from './message-schema.ts';
import { textOnly } from './server-schema.ts';
import { toolMembersOf } from './tools-schema.ts';

const isEmpty = (value: unknown) =>
  typeof value === 'object' && value !== null && Object.keys(value).length === 0;

const cached = {
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

const markedText = textPart.extend(cached);
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
  ...cached,
});
const filePart = z.object({
  type: z.literal('file'),
  file: z.object(
    {
      file_data: name.nullish(),
      filename: text.nullish(),
      file_id: refused('this gateway stores no files; send file_data'),
    },
    { error: 'expected {file_data, filename}' },
  ),
  ...cached,
});

const reasoningDetail = z.union([
  z.object({ type: z.literal('reasoning.encrypted'), data: text, id: text.nullish() }),
  z.object({ type: z.literal('reasoning.text'), text: text.nullish(), signature: text.nullish() }),
  // Other types are informational and ignored.
  z.looseObject({ type: text.refine((type) => type !== 'reasoning.encrypted' && type !== 'reasoning.text') }),
]);
export type ReasoningDetail = z.infer<typeof reasoningDetail>;

const sealedCall = toolCall.extend({
  id: name,
  type: toolCall.shape.type.nullish(),
  extra_content: z
    .object({ google: z.object({ thought_signature: text.nullish() }).nullish() })
    .nullish()
    .catch(undefined),
});

const messages = messagesOf([
  z.object({
    role: z.literal(['system', 'developer']),
    content: contentOf(partsOf([markedText], 'text')),
    ...cached,
  }),
  z.object({
    role: z.literal('user'),
    content: contentOf(partsOf([markedText, imagePart, filePart], 'text, image_url and file')),
    ...cached,
  }),
  z.object({
    ...assistantMembers,
    content: contentOf(partsOf([markedText, refusalPart], 'text and refusal')).nullish(),
    reasoning_details: list(reasoningDetail, { error: 'expected an array of details' }).nullish(),
    tool_calls: toolCalls(sealedCall),
    ...cached,
  }),
  z.object({
    role: z.literal('tool'),
    content: contentOf(partsOf([markedText, imagePart], 'text and image_url')),
    tool_call_id: name,
    ...cached,
  }),
]);
export type ChatMessage = z.infer<typeof messages>[number];

/** Reasoning members of the gateway on OpenAI's wires. */
const effortMembers = {
  reasoning_effort: effort.nullish(),
  reasoning: z
    .object(
      { effort: effort.nullish(), max_tokens: whole(0) },
      { error: 'expected {effort} or {max_tokens}' },
    )
    .nullish(),
};
export const askedEffort = z.object(effortMembers);

/** A token budget takes precedence over an effort. */
export function reasoningOf({
  reasoning,
  reasoning_effort: named,
}: z.infer<typeof askedEffort>): Reasoning | undefined {
  const maxTokens = reasoning?.max_tokens ?? undefined;
  const wanted = reasoning?.effort ?? (maxTokens === undefined ? named : undefined);
  return wanted || maxTokens !== undefined ? present({ effort: wanted, maxTokens }) : undefined;
}

const { temperature, top_p, stop, presence_penalty, frequency_penalty } = samplingMembers;
const textsOnly = 'this model generates text only; leave it out';
const older = (newer: string) => `the older form is not supported on this model; use ${newer}`;

/** Schema of a request whose members are all understood; hints that only concern the provider are dropped. */
export const chatRequest = z.object({
  messages,
  ...toolMembersOf(name, cached),
  max_completion_tokens: whole(1),
  max_tokens: whole(1),
  temperature,
  top_p,
  top_k: whole(0),
  seed: z.int({ error: 'expected a whole number' }).nullish(),
  stop,
  presence_penalty,
  frequency_penalty,
  logprobs: flag.nullish(),
  top_logprobs: whole(0, 20),
  ...effortMembers,
  response_format: responseFormat.nullish(),
  user: text.nullish(),
  safety_identifier: text.nullish(),
  n: refused('this model generates one answer per request; send several requests', isOneOf(1)),
  functions: refused(older('tools'), isEmpty),
  function_call: refused(older('tool_choice'), isOneOf('auto', 'none')),
  logit_bias: refused('this model does not support logit_bias; leave it out', isEmpty),
  audio: refused(textsOnly),
  modalities: refused(textsOnly, textOnly),
  web_search_options: refused('this model does not search the web here; leave it out'),
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
