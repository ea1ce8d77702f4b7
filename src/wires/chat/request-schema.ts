import { z } from 'zod';
import { unsupportedMark } from '../../http/violations.ts';
import { efforts } from '../core/effort.ts';

/** A member that only some models take: refused rather than ignored. @param idle values that ask for nothing */
const refused = (why: string, idle: (value: unknown) => boolean = () => false) =>
  z
    .unknown()
    .refine((value) => value === undefined || value === null || idle(value), {
      error: why,
      ...unsupportedMark,
    })
    .optional();
const isEmpty = (value: unknown) =>
  typeof value === 'object' && value !== null && Object.keys(value).length === 0;

const text = z.string({ error: 'expected a text' });
const name = text.min(1, 'expected a text that is not empty');
const flag = z.boolean({ error: 'expected true or false' });
const whole = (least: number) => {
  const error = `expected a whole number of at least ${least}`;
  return z.int({ error }).min(least, error);
};
const between = (least: number, most: number) => {
  const error = `expected a number from ${least} to ${most}`;
  return z.number({ error }).min(least, error).max(most, error);
};
const jsonObject = (error: string) => z.record(z.string(), z.unknown(), { error });

const cacheControl = z
  .object(
    {
      type: z.literal('ephemeral', { error: "expected 'ephemeral'" }),
      ttl: z.enum(['5m', '1h'], { error: "expected '5m' or '1h'" }).nullish(),
    },
    { error: "expected {type: 'ephemeral'}" },
  )
  .nullish();

const textPart = z.object({ type: z.literal('text'), text, cache_control: cacheControl });
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
  cache_control: cacheControl,
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
  cache_control: cacheControl,
});
const refusalPart = z.object({ type: z.literal('refusal'), refusal: text });

const partsOf = <Options extends readonly [z.core.$ZodTypeDiscriminable, ...z.core.$ZodTypeDiscriminable[]]>(
  options: Options,
  known: string,
) => {
  const form = 'expected a text or an array of parts';
  const part = z.discriminatedUnion('type', options, {
    error: ({ input }) => {
      const type =
        typeof input === 'object' && input !== null ? (input as { type?: unknown }).type : undefined;
      return typeof type === 'string'
        ? `parts of type '${type.slice(0, 40)}' cannot be sent to this model here; it takes ${known}`
        : "expected a part such as {type: 'text', text: '...'}";
    },
  });
  return z.union([text, z.array(part, { error: form })], { error: form });
};

const reasoningDetail = z.union([
  z.object({ type: z.literal('reasoning.encrypted'), data: text, id: text.nullish() }),
  z.object({ type: z.literal('reasoning.text'), text: text.nullish(), signature: text.nullish() }),
  // Other kinds are for show.
  z.looseObject({ type: text.refine((type) => type !== 'reasoning.encrypted' && type !== 'reasoning.text') }),
]);
export type ReasoningDetail = z.infer<typeof reasoningDetail>;

const toolCall = z.object(
  {
    id: name,
    type: z.literal('function', { error: "expected 'function'" }).nullish(),
    function: z.object({ name, arguments: text }, { error: 'expected {name, arguments}' }),
    extra_content: z
      .object({ google: z.object({ thought_signature: text.nullish() }).nullish() })
      .nullish()
      .catch(undefined),
  },
  { error: "expected a tool call such as {id, type: 'function', function}" },
);

const older = (newer: string) =>
  refused(`the older form is not supported on this model; use ${newer}`, isEmpty);

const message = z.discriminatedUnion(
  'role',
  [
    z.object({
      role: z.literal(['system', 'developer']),
      content: partsOf([textPart], 'text'),
      cache_control: cacheControl,
    }),
    z.object({
      role: z.literal('user'),
      content: partsOf([textPart, imagePart, filePart], 'text, image_url and file'),
      cache_control: cacheControl,
    }),
    z.object({
      role: z.literal('assistant'),
      content: partsOf([textPart, refusalPart], 'text and refusal').nullish(),
      refusal: text.nullish(),
      reasoning: text.nullish(),
      reasoning_content: text.nullish(),
      reasoning_details: z.array(reasoningDetail, { error: 'expected an array of details' }).nullish(),
      tool_calls: z.array(toolCall, { error: 'expected an array of tool calls' }).nullish(),
      function_call: older('tool_calls'),
      audio: refused('audio is not supported on this model'),
      cache_control: cacheControl,
    }),
    z.object({
      role: z.literal('tool'),
      content: partsOf([textPart, imagePart], 'text and image_url'),
      tool_call_id: name,
      cache_control: cacheControl,
    }),
  ],
  {
    error: ({ input }) =>
      typeof input === 'object' && input !== null
        ? 'expected one of the roles system, developer, user, assistant, tool'
        : 'expected a message such as {role, content}',
  },
);
export type ChatMessage = z.infer<typeof message>;

const toolForm = "expected a tool such as {type: 'function', function: {name, description, parameters}}";
const tool = z.object(
  {
    type: z.literal('function', {
      error: ({ input }) =>
        typeof input === 'string'
          ? `tools of type '${input.slice(0, 40)}' are not supported on this model; describe them as functions`
          : toolForm,
    }),
    function: z.object(
      {
        name,
        description: text.nullish(),
        parameters: jsonObject('expected a JSON schema of an object').nullish(),
        strict: flag.nullish(),
      },
      { error: toolForm },
    ),
    cache_control: cacheControl,
  },
  { error: toolForm },
);

const choiceForm = "expected 'none', 'auto', 'required' or {type: 'function', function: {name}}";
const toolChoice = z.union(
  [
    z.enum(['none', 'auto', 'required']),
    z.object({ type: z.literal('function'), function: z.object({ name }) }),
  ],
  { error: choiceForm },
);

const schemaForm = z.object(
  {
    name: text.regex(/^[A-Za-z0-9_-]{1,64}$/, 'expected 1 to 64 letters, digits, _ or -').nullish(),
    schema: jsonObject('expected a JSON schema of an object').nullish(),
    description: text.nullish(),
    strict: flag.nullish(),
  },
  { error: 'expected {name, schema}' },
);
const responseFormat = z.discriminatedUnion(
  'type',
  [
    z.object({ type: z.literal('text') }),
    z.object({ type: z.literal('json_object') }),
    z.object({
      type: z.literal('json_schema'),
      json_schema: schemaForm.nullish(),
      // As llama.cpp takes it.
      schema: jsonObject('expected a JSON schema of an object').nullish(),
    }),
  ],
  { error: "expected {type: 'text'}, {type: 'json_object'} or {type: 'json_schema', json_schema}" },
);

export const effort = z.enum(efforts as readonly [(typeof efforts)[number]], {
  error: `expected one of ${efforts.join(', ')}`,
});
export const reasoning = z.object(
  { effort: effort.nullish(), max_tokens: whole(0).nullish() },
  { error: 'expected {effort} or {max_tokens}' },
);

const stopForm = 'expected a text or an array of texts';

/** A request whose every member is understood; hints that steer nothing but the provider are let go. */
export const chatRequest = z.object({
  messages: z
    .array(message, { error: 'expected an array of messages' })
    .min(1, 'expected at least one message'),
  tools: z.array(tool, { error: 'expected an array of tools' }).nullish(),
  tool_choice: toolChoice.nullish(),
  parallel_tool_calls: flag.nullish(),
  max_completion_tokens: whole(1).nullish(),
  max_tokens: whole(1).nullish(),
  temperature: between(0, 2).nullish(),
  top_p: between(0, 1).nullish(),
  top_k: whole(0).nullish(),
  seed: z.int({ error: 'expected a whole number' }).nullish(),
  stop: z.union([text, z.array(text, { error: stopForm })], { error: stopForm }).nullish(),
  presence_penalty: between(-2, 2).nullish(),
  frequency_penalty: between(-2, 2).nullish(),
  logprobs: flag.nullish(),
  top_logprobs: whole(0).max(20, 'expected at most 20').nullish(),
  reasoning_effort: effort.nullish(),
  reasoning: reasoning.nullish(),
  response_format: responseFormat.nullish(),
  user: text.nullish(),
  safety_identifier: text.nullish(),
  n: refused('this model gives one answer a request; ask several times', (value) => value === 1),
  functions: older('tools'),
  function_call: refused(
    'the older form is not supported on this model; use tool_choice',
    (value) => value === 'auto' || value === 'none',
  ),
  logit_bias: refused('this model takes no logit_bias; leave it out', isEmpty),
  audio: refused('this model gives text only; leave it out'),
  modalities: refused(
    'this model gives text only; leave it out',
    (value) => Array.isArray(value) && value.every((each) => each === 'text'),
  ),
  web_search_options: refused('this model does not search the web here; leave it out'),
});
export type ChatRequest = z.infer<typeof chatRequest>;

/** Members that the gateway reads before it knows whom to ask. */
export const routedMembers = {
  model: name.describe('An id of GET /v1/models, an alias, PROVIDER/ID, a deployment, or KIND:SLUG/MODEL.'),
  stream: flag.nullish().describe('Send the answer as server-sent events.'),
  stream_options: z.looseObject({ include_usage: flag.nullish() }).nullish(),
};

export const chatBody = chatRequest.extend(routedMembers).meta({
  id: 'ChatCompletionRequest',
  description:
    'For models of every wire. Providers that speak this wire are sent whatever else they take, as it came.',
});
