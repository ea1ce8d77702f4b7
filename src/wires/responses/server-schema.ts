import { z } from 'zod';
import { jsonObject } from '../../http/schema/json-object.ts';
import { dictionary, list } from '../../http/schema/list.ts';
import { unsupportedIssue } from '../../http/violations.ts';
import {
  effort,
  isEmptyList,
  flag,
  foreignMember,
  isOneOf,
  isPlainTextFormat,
  refusedMember,
  text,
  requestBodySchema,
  verbosity,
  optionalInteger,
} from '../core/members.ts';
import { samplingMembers } from '../core/sampling-schema.ts';
import { inputItem } from './items-schema.ts';
import { toolMembers } from './tools-schema.ts';

const statelessReason = 'this host stores no responses (--store-responses)';
/** A member that only a host that stores responses can honor. */
const storedMember = <Member extends z.ZodType>(
  member: Member,
  isStoring: boolean,
  reason: string,
  hasNoEffect: (value: unknown) => boolean = () => false,
) =>
  member
    .nullish()
    .refine((value) => isStoring || value === undefined || value === null || hasNoEffect(value), {
      error: reason,
      ...unsupportedIssue,
    });
const formatNameError = 'expected up to 64 letters, digits, _ and -';
const format = z.discriminatedUnion(
  'type',
  [
    z.object({ type: z.literal('text') }),
    z.object({ type: z.literal('json_object') }),
    z.object({
      type: z.literal('json_schema'),
      name: z.string({ error: formatNameError }).regex(/^[\w-]{1,64}$/, formatNameError),
      schema: jsonObject('expected a JSON schema'),
      description: text.nullish(),
      strict: flag
        .nullish()
        .describe('The answer always matches the schema; a schema that cannot be enforced is refused.'),
    }),
  ],
  { error: "expected {type: 'text'}, {type: 'json_object'} or {type: 'json_schema', name, schema}" },
);
export type TextFormat = z.infer<typeof format>;

const metadata = dictionary(
  { error: 'expected an object of texts', key: /^[^]{1,64}$/, keyError: 'a key has 1 to 64 characters' },
  text.max(512, 'a value has at most 512 characters'),
).refine((pairs) => Object.keys(pairs).length <= 16, 'at most 16 pairs');

/** The request body. @param isStoring whether the host stores responses */
export const createResponseRequest = (isStoring: boolean) =>
  requestBodySchema('ResponseRequest', {
    model: text.nullish().describe('The id of the resident model, from GET /v1/models. Default: that model.'),
    input: z
      .union(
        [
          text,
          list(inputItem, {
            error: 'expected a text or an array of items',
            empty: 'must contain at least one item',
          }),
        ],
        {
          error: 'expected a text or an array of items',
        },
      )
      .describe(
        'The conversation, including earlier answers of the model, or what continues the previous response.',
      ),
    instructions: text.nullish().describe('A system message before the input.'),
    max_output_tokens: optionalInteger(1).describe(
      'Maximum tokens of the answer, reasoning included. Default: the remaining context.',
    ),
    ...samplingMembers,
    top_logprobs: optionalInteger(0, 20).describe(
      'Number of most likely tokens to report at each position of the text.',
    ),
    include: list(text, { error: 'expected an array of texts' })
      .nullish()
      .describe('`message.output_text.logprobs` is supported; other values have no effect.'),
    ...toolMembers,
    text: z
      .object(
        {
          format: format.nullish(),
          verbosity,
        },
        { error: 'expected an object' },
      )
      .nullish()
      .describe('Format of the text of the answer.'),
    reasoning: z
      .object(
        {
          effort: effort
            .nullish()
            .describe(
              "`none` disables reasoning; other values are mapped to the nearest level of the model's chat template.",
            ),
          summary: z
            .enum(['auto', 'concise', 'detailed'], { error: "expected 'auto', 'concise' or 'detailed'" })
            .nullish()
            .describe('No effect: the reasoning item contains the complete reasoning in `content`.'),
        },
        { error: 'expected an object' },
      )
      .nullish()
      .describe('Reasoning settings.'),
    metadata: metadata.nullish().describe('Returned in the answer.'),
    user: text.nullish().describe('Returned in the answer.'),
    safety_identifier: text.nullish().describe('Returned in the answer.'),
    prompt_cache_key: text.nullish().describe('No effect: common prompt prefixes are always shared.'),
    store: flag
      .nullish()
      .describe(
        'False: the response is not stored. No effect on a host without `--store-responses`: the answer has `store: false`.',
      ),
    stream: flag.nullish().describe('Send the answer as server-sent events.'),
    stream_options: z
      .object(
        { include_usage: flag.nullish(), include_obfuscation: flag.nullish() },
        { error: 'expected an object' },
      )
      .nullish()
      .describe('No effect: the last event always has the usage, and nothing is obfuscated.'),
    previous_response_id: storedMember(
      text,
      isStoring,
      `${statelessReason}; send the whole conversation as input`,
    ).describe(
      'A stored response to continue: its conversation comes before `input`, without its `instructions`.',
    ),
    conversation: refusedMember(
      'this host has no conversations; name the previous response or send the whole conversation as input',
    ),
    background: storedMember(
      flag,
      isStoring,
      `${statelessReason} to be fetched later; use stream`,
      isOneOf(false),
    ).describe(
      'Answer at once with a queued response, which `GET` then shows as it is answered. Needs `store`.',
    ),
    prompt: refusedMember('this host has no prompt templates; write the prompt into instructions and input'),
    truncation: refusedMember(
      'nothing is left out of a conversation by itself; shorten the input',
      isOneOf('disabled'),
    ),
    context_management: refusedMember(
      'nothing is left out of a conversation by itself; shorten the input',
      isEmptyList,
    ),
    moderation: refusedMember('this host does not moderate'),
    response_format: foreignMember('text.format', isPlainTextFormat),
    max_tokens: foreignMember('max_output_tokens'),
    max_completion_tokens: foreignMember('max_output_tokens'),
  });
/** The members that a prompt is made from. */
export const createTokenCountRequest = (isStoring: boolean) =>
  createResponseRequest(isStoring)
    .pick({
      model: true,
      input: true,
      instructions: true,
      tools: true,
      tool_choice: true,
      parallel_tool_calls: true,
      text: true,
      reasoning: true,
      previous_response_id: true,
      conversation: true,
      truncation: true,
    })
    .partial({ input: true })
    .meta({ id: 'ResponseTokenCountRequest' });
export type TokenCountRequest = z.infer<ReturnType<typeof createTokenCountRequest>>;
/** A conversation to shorten. */
export const createCompactRequest = (isStoring: boolean) =>
  createTokenCountRequest(isStoring)
    .pick({ input: true, instructions: true, previous_response_id: true })
    .extend({
      model: text.describe('The id of the resident model.'),
      prompt_cache_key: text.nullish().describe('No effect: common prompt prefixes are always shared.'),
    })
    .meta({ id: 'ResponseCompactRequest' });
export type ResponseRequest = z.infer<ReturnType<typeof createResponseRequest>>;
