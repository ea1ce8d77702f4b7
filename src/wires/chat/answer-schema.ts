import { z } from 'zod';
import { chatLogprobs, chunkMembers, usageMembers } from '../core/answer-schema.ts';

const finishReason = z.enum(['stop', 'length', 'tool_calls']);
const commonMembers = { id: z.string(), created: z.int(), model: z.string(), system_fingerprint: z.string() };
const reasoning = {
  reasoning_content: z.string().optional().describe('Reasoning of the model; absent where there is none.'),
  reasoning: z.string().optional().describe('Same text as `reasoning_content`.'),
};

export const chatCompletion = z
  .object({
    ...commonMembers,
    object: z.literal('chat.completion'),
    choices: z.array(
      z.object({
        index: z.int(),
        message: z.object({
          role: z.literal('assistant'),
          content: z.string().nullable().describe('Null where the answer contains only tool calls.'),
          refusal: z.null(),
          ...reasoning,
          tool_calls: z
            .array(
              z.object({
                id: z.string(),
                type: z.literal('function'),
                function: z.object({ name: z.string(), arguments: z.string() }),
              }),
            )
            .optional(),
        }),
        logprobs: chatLogprobs.nullable(),
        finish_reason: finishReason,
      }),
    ),
    ...usageMembers,
  })
  .meta({ id: 'ChatCompletion' });
export type ChatCompletion = z.infer<typeof chatCompletion>;

export const chatChunk = z
  .object({
    ...commonMembers,
    object: z.literal('chat.completion.chunk'),
    choices: z.array(
      z.object({
        index: z.int(),
        delta: z.object({
          role: z.literal('assistant').optional(),
          content: z.string().nullish().describe('Null where the answer begins with a tool call.'),
          refusal: z.null().optional(),
          ...reasoning,
          tool_calls: z
            .array(
              z.object({
                index: z.int(),
                id: z
                  .string()
                  .optional()
                  .describe('Present with type and name on the first piece of a call only.'),
                type: z.literal('function').optional(),
                function: z.object({ name: z.string().optional(), arguments: z.string() }),
              }),
            )
            .optional(),
        }),
        logprobs: chatLogprobs.nullable(),
        finish_reason: finishReason.nullable(),
      }),
    ),
    ...chunkMembers,
  })
  .meta({ id: 'ChatCompletionChunk' });
export type ChatChunk = z.infer<typeof chatChunk>;
