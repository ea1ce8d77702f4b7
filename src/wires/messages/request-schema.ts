import { z } from 'zod';
import { jsonObject } from '../../http/schema/json-object.ts';
import { list } from '../../http/schema/list.ts';
import {
  isEmptyList,
  flag,
  foreignMember,
  isOneOf,
  isPlainTextFormat,
  numberInRange,
  refusedMember,
  requestBodySchema,
  text,
  toolList,
  toolName,
  typeOf,
  optionalInteger,
} from '../core/members.ts';
import { message, system } from './blocks-schema.ts';

const fraction = numberInRange(0, 1);

const tool = z.discriminatedUnion(
  'type',
  [
    z.object({
      type: z.literal('custom').nullish(),
      name: toolName,
      description: text.nullish(),
      input_schema: jsonObject('expected a JSON schema of an object'),
      strict: flag
        .nullish()
        .describe('The input matches the schema exactly; a schema that cannot be enforced is refused.'),
    }),
  ],
  {
    error: ({ input }) => {
      const type = typeOf(input);
      return type === ''
        ? 'expected a tool such as {name, input_schema}'
        : `tools of type '${type}' are not built into this host; define one with an input_schema and run it yourself`;
    },
  },
);

export const choiceError = "expected {type: 'auto'}, {type: 'any'}, {type: 'tool', name} or {type: 'none'}";
const parallelMembers = {
  disable_parallel_tool_use: flag.nullish().describe('Allow at most one call per answer.'),
};
const toolChoice = z.discriminatedUnion(
  'type',
  [
    z.object({ type: z.literal('auto'), ...parallelMembers }),
    z.object({ type: z.literal('any'), ...parallelMembers }),
    z.object({ type: z.literal('tool'), name: toolName, ...parallelMembers }),
    z.object({ type: z.literal('none') }),
  ],
  { error: choiceError },
);

const budgetError = 'expected a whole number, at least 1';
const display = z
  .enum(['summarized', 'omitted'], { error: "expected 'summarized' or 'omitted'" })
  .nullish()
  .describe('`omitted` leaves the thinking blocks empty; thinking is never summarized.');
const thinking = z.discriminatedUnion(
  'type',
  [
    z.object({
      type: z.literal('enabled'),
      budget_tokens: z
        .int({ error: budgetError })
        .min(1, budgetError)
        .describe('Must be less than max_tokens, which is the only limit of the answer with its thinking.'),
      display,
    }),
    z.object({ type: z.literal(['adaptive', 'between_tools']), display }),
    z.object({ type: z.literal('disabled') }),
  ],
  { error: "expected {type: 'enabled', budget_tokens}, {type: 'adaptive'} or {type: 'disabled'}" },
);

const efforts = ['low', 'medium', 'high', 'xhigh', 'max'] as const;
const format = z.object(
  {
    type: z.literal('json_schema', { error: "expected 'json_schema'" }),
    schema: jsonObject('expected a JSON schema'),
  },
  { error: "expected {type: 'json_schema', schema}" },
);

/** Members that determine the prompt. */
const promptMembers = {
  model: text.nullish().describe('The id of the resident model, from GET /v1/models. Default: that model.'),
  messages: list(message, {
    error: 'expected an array of messages',
    empty: 'must contain at least one message',
  }).describe('Consecutive messages of a role are merged. A last assistant message is continued.'),
  system: system.nullish().describe('Precedes the messages.'),
  tools: toolList(tool).nullish().describe('Functions that the model may call.'),
  tool_choice: toolChoice
    .nullish()
    .describe(
      'Whether the model may (`auto`), must (`any`, `tool`) or must not (`none`) call a tool. Default `auto`.',
    ),
  thinking: thinking.nullish().describe("Default: the template's own."),
  output_config: z
    .object(
      {
        effort: z
          .enum(efforts, { error: `expected one of ${efforts.join(', ')}` })
          .nullish()
          .describe("Mapped to the nearest level of the model's chat template."),
        format: format.nullish().describe('The text of the answer matches the schema.'),
      },
      { error: 'expected an object' },
    )
    .nullish()
    .describe('Format of the answer and reasoning effort.'),
  output_format: format
    .nullish()
    .describe('Older member for `output_config.format`, which takes precedence.'),
  mcp_servers: refusedMember(
    'this host reaches no MCP servers; define their tools and run them yourself',
    isEmptyList,
  ),
};

export const countRequest = requestBodySchema('CountTokensRequest', promptMembers);
export type CountRequest = z.infer<typeof countRequest>;

const maxTokensError = 'expected a whole number, at least 0';
const requiredMaxTokensError = ({ input }: { readonly input?: unknown }) =>
  input === undefined ? `is required: ${maxTokensError}` : maxTokensError;
export const messageRequest = requestBodySchema('MessageRequest', {
  ...promptMembers,
  max_tokens: z
    .int({ error: requiredMaxTokensError })
    .min(0, maxTokensError)
    .describe(
      'Maximum tokens of the answer, thinking included. May exceed the remaining context; 0 only ' +
        'evaluates the prompt, to cache it for later requests.',
    ),
  temperature: fraction.nullish().describe('0 always selects the most likely token. Default 1.'),
  top_p: fraction
    .nullish()
    .describe('Keeps the most likely tokens up to this cumulative probability. Default 1: all.'),
  top_k: optionalInteger(0, 2 ** 31).describe('Keeps this many of the most likely tokens. Default 0: all.'),
  stop_sequences: list(text.min(1, 'a stop sequence must not be empty'), {
    error: 'expected an array of texts',
    max: { count: 16, error: 'at most 16 stop sequences' },
  })
    .nullish()
    .describe('Texts that end the answer and are not part of it.'),
  stream: flag.nullish().describe('Send the answer as server-sent events.'),
  stop: foreignMember('stop_sequences', (value) => isEmptyList(value) || isOneOf('')(value)),
  response_format: foreignMember('output_config.format', isPlainTextFormat),
  metadata: z.object({}, { error: 'expected an object' }).nullish().describe('Ignored.'),
  thread: z
    .unknown()
    .optional()
    .describe('Refused unless absent or null: this host stores no conversations.'),
});
export type MessageRequest = z.infer<typeof messageRequest>;
