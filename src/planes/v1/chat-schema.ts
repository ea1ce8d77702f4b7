import { z } from 'zod';
import { list } from '../list.ts';
import { notYet, samplingMembers, streamMembers, tokenLimit } from './request-schema.ts';
import { usage } from './usage.ts';

const text = z.string({ error: 'expected a text' });

const part = z.discriminatedUnion(
  'type',
  [z.object({ type: z.literal('text'), text }), z.object({ type: z.literal('refusal'), refusal: text })],
  {
    error: ({ input }) => {
      const type = (input as { type?: unknown } | null | undefined)?.type;
      return typeof type === 'string'
        ? `parts of type '${type.slice(0, 40)}' cannot be read by this model; it reads text`
        : "expected a part such as {type: 'text', text: '...'}";
    },
  },
);
export type ContentPart = z.infer<typeof part>;

const contentForm = 'expected a text or an array of parts';
const content = z.union([text, list(part, { error: contentForm })], { error: contentForm });
const name = text.nullish();

const toolCall = z.object(
  {
    id: text,
    type: z.literal('function', { error: "expected 'function'" }),
    function: z.object({ name: text, arguments: text }, { error: 'expected {name, arguments}' }),
  },
  { error: 'expected a tool call such as {id, type, function}' },
);

const roles = ['system', 'developer', 'user', 'assistant', 'tool'] as const;
const message = z.discriminatedUnion(
  'role',
  [
    z.object({ role: z.literal(['system', 'developer', 'user']), content, name }),
    z.object({
      role: z.literal('assistant'),
      content: content.nullish(),
      name,
      tool_calls: list(toolCall, { error: 'expected an array of tool calls' }).nullish(),
    }),
    z.object({ role: z.literal('tool'), content, tool_call_id: text.nullish() }),
  ],
  {
    error: ({ input }) =>
      typeof input === 'object' && input !== null
        ? `expected one of the roles ${roles.join(', ')}`
        : 'expected a message such as {role, content}',
  },
);
export type Message = z.infer<typeof message>;

const emptyList = (value: unknown) => Array.isArray(value) && value.length === 0;
const isOneOf =
  (...idle: readonly unknown[]) =>
  (value: unknown) =>
    idle.includes(value);
const plainText = (value: unknown) => (value as { type?: unknown }).type === 'text';
const textOnly = (value: unknown) => Array.isArray(value) && value.every((modality) => modality === 'text');

export const chatRequest = z
  .object(
    {
      model: text
        .nullish()
        .describe('The id of the resident model, from GET /v1/models. Default: that model.'),
      messages: list(message, {
        error: 'expected an array of messages',
        empty: 'must hold at least one message',
      }),
      max_completion_tokens: tokenLimit(1).describe(
        "The answer's greatest length. Default: what the context leaves.",
      ),
      max_tokens: tokenLimit(1).describe('The older name of `max_completion_tokens`, which wins.'),
      ...samplingMembers,
      ...streamMembers,
      n: notYet('more than one choice', isOneOf(1)),
      logprobs: notYet('logprobs', isOneOf(false)),
      top_logprobs: notYet('top_logprobs', isOneOf(0)),
      tools: notYet('calling tools', emptyList),
      tool_choice: notYet('calling tools', isOneOf('none', 'auto')),
      functions: notYet('calling functions', emptyList),
      function_call: notYet('calling functions', isOneOf('none', 'auto')),
      response_format: notYet('a response_format other than text', plainText),
      modalities: notYet('a modality other than text', textOnly),
      audio: notYet('audio'),
    },
    { error: 'expected a JSON object' },
  )
  .meta({ id: 'ChatCompletionRequest' });

const finishReason = z.enum(['stop', 'length']);
const head = { id: z.string(), created: z.int(), model: z.string(), system_fingerprint: z.string() };

export const chatCompletion = z
  .object({
    ...head,
    object: z.literal('chat.completion'),
    choices: z.array(
      z.object({
        index: z.int(),
        message: z.object({ role: z.literal('assistant'), content: z.string(), refusal: z.null() }),
        logprobs: z.null(),
        finish_reason: finishReason,
      }),
    ),
    usage,
  })
  .meta({ id: 'ChatCompletion' });
export type ChatCompletion = z.infer<typeof chatCompletion>;

export const chatChunk = z
  .object({
    ...head,
    object: z.literal('chat.completion.chunk'),
    choices: z.array(
      z.object({
        index: z.int(),
        delta: z.object({
          role: z.literal('assistant').optional(),
          content: z.string().optional(),
          refusal: z.null().optional(),
        }),
        logprobs: z.null(),
        finish_reason: finishReason.nullable(),
      }),
    ),
    usage: usage.nullable().optional().describe('Null but on the last chunk, and only with include_usage.'),
  })
  .meta({ id: 'ChatCompletionChunk' });
export type ChatChunk = z.infer<typeof chatChunk>;
