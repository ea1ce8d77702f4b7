import { z } from 'zod';
import { flag, text, textsOrIds, whole, requestBody } from '../core/members.ts';
import { chunkMembers, takenMembers, textLogprobs } from '../core/answer-schema.ts';
import { outputMembers } from '../core/output-schema.ts';
import { answerCount, peerMembers, samplingMembers, streamMembers } from '../core/sampling-schema.ts';

export const completionRequest = requestBody('CompletionRequest', {
  model: text.nullish().describe('The id of the resident model, from GET /v1/models. Default: that model.'),
  prompt: textsOrIds(text, { count: 128, error: 'at most 128 prompts' }).describe(
    'Taken as it stands; special tokens written in it are read as tokens.',
  ),
  suffix: text
    .nullish()
    .describe('The text behind the answer, which then fills the gap between the prompt and it.'),
  max_tokens: whole(0).describe("The answer's greatest length. Default 16."),
  n: answerCount,
  best_of: whole(1, 20).describe(
    'Makes so many answers and gives the `n` likeliest, by the mean of their log probabilities.',
  ),
  logprobs: whole(0, 5).describe(
    'Tell the log probability of each token and of so many of the likeliest; with `echo`, of the prompt too.',
  ),
  echo: flag.nullish().describe('Begin the answer with the prompt.'),
  ...samplingMembers,
  ...streamMembers,
  ...outputMembers,
  ...peerMembers,
});
export type CompletionRequest = z.infer<typeof completionRequest>;

const finishReason = z.enum(['stop', 'length']);
const answerOf = <Finish extends z.ZodType, More extends z.ZodRawShape>(finish: Finish, more: More) =>
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

export const completion = answerOf(finishReason, takenMembers).meta({ id: 'Completion' });
export type Completion = z.infer<typeof completion>;

export const completionChunk = answerOf(finishReason.nullable(), chunkMembers).meta({
  id: 'CompletionChunk',
});
export type CompletionChunk = z.infer<typeof completionChunk>;
