import { z } from 'zod';

const token = { token: z.string(), logprob: z.number(), bytes: z.array(z.int()) };
const logprobs = z
  .array(z.object({ ...token, top_logprobs: z.array(z.object(token)) }))
  .optional()
  .describe('Log probabilities of the tokens of this line, where requested.');

const duration = z.int().optional().describe('Nanoseconds; on the last line.');
const count = z.int().optional().describe('Tokens; on the last line.');

/** Members of the last line. */
const finalMembers = {
  done_reason: z.enum(['stop', 'length', 'load', 'unload']).optional(),
  total_duration: duration,
  load_duration: duration,
  prompt_eval_count: count,
  prompt_eval_duration: duration,
  eval_count: count,
  eval_duration: duration,
};

const commonMembers = {
  model: z.string().describe('The model name of the request.'),
  created_at: z.string().describe('RFC 3339 with nanoseconds.'),
};

const toolCall = z.object({
  id: z.string(),
  function: z.object({ index: z.int(), name: z.string(), arguments: z.record(z.string(), z.unknown()) }),
});
export type ToolCallLine = z.infer<typeof toolCall>;

export const chatLine = z
  .object({
    ...commonMembers,
    message: z.object({
      role: z.literal('assistant'),
      content: z.string(),
      thinking: z.string().optional(),
      tool_calls: z.array(toolCall).optional(),
    }),
    logprobs,
    done: z.boolean(),
    dropped_messages: z
      .int()
      .optional()
      .describe('Number of messages that the context could not hold, where there are any; on the last line.'),
    ...finalMembers,
  })
  .meta({ id: 'OllamaChatLine' });

export const generateLine = z
  .object({
    ...commonMembers,
    response: z.string(),
    thinking: z.string().optional(),
    logprobs,
    done: z.boolean(),
    context: z
      .array(z.int())
      .optional()
      .describe('Token ids of the text so far; a later request may continue from them.'),
    ...finalMembers,
  })
  .meta({ id: 'OllamaGenerateLine' });
