import { z } from 'zod';
import { flag, requestBodySchema, text, textsOrIds, optionalInteger } from '../core/members.ts';
import { chunkMembers, usageMembers, textLogprobs } from '../core/answer-schema.ts';
import { outputMembers } from '../core/output-schema.ts';
import { answerCount, peerMembers, samplingMembers, streamMembers } from '../core/sampling-schema.ts';

export const completionRequest = requestBodySchema('CompletionRequest', {
  model: text.nullish().describe('The id of the resident model, from GET /v1/models. Default: that model.'),
  prompt: textsOrIds(text, { count: 128, error: 'at most 128 prompts' }).describe(
    'Used verbatim; special tokens in the text are parsed as tokens.',
  ),
  suffix: text
    .nullish()
    .describe('Text after the answer; the answer then fills the gap between prompt and suffix.'),
  max_tokens: optionalInteger(0).describe('Maximum tokens of the answer. Default 16.'),
  n: answerCount,
  best_of: optionalInteger(1, 20).describe(
    'Generates this many answers and returns the `n` most likely ones, by mean log probability.',
  ),
  logprobs: optionalInteger(0, 5).describe(
    'Report the log probability of each token and of this many most likely tokens; with `echo`, of the prompt too.',
  ),
  echo: flag.nullish().describe('Begin the answer with the prompt.'),
  ...samplingMembers,
  ...streamMembers,
  ...outputMembers,
  ...peerMembers,
});
export type CompletionRequest = z.infer<typeof completionRequest>;

const finishReason = z.enum(['stop', 'length']);
const answerSchema = <Finish extends z.ZodType, More extends z.ZodRawShape>(finish: Finish, more: More) =>
  z.object({
    id: z.string(),
    object: z.literal('text_completion'),
    created: z.int(),
    model: z.string(),
    system_fingerprint: z.string(),
    choices: z.array(
      z.object({
        index: z.int(),
        text: z.string(),
        logprobs: textLogprobs.nullable(),
        finish_reason: finish,
      }),
    ),
    ...more,
  });

export const completion = answerSchema(finishReason, usageMembers).meta({ id: 'Completion' });
export type Completion = z.infer<typeof completion>;

export const completionChunk = answerSchema(finishReason.nullable(), chunkMembers).meta({
  id: 'CompletionChunk',
});
export type CompletionChunk = z.infer<typeof completionChunk>;
