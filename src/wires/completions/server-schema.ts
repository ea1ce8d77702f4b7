import { z } from 'zod';
import { list } from '../../http/schema/list.ts';
import { flag, text } from '../core/members.ts';
import { promptProgress, timings } from '../core/timings-schema.ts';
import { textLogprobs } from '../core/answer-schema.ts';
import { outputMembers } from '../core/output-schema.ts';
import {
  answerCount,
  peerMembers,
  samplingMembers,
  streamMembers,
  tokenLimit,
} from '../core/sampling-schema.ts';
import { usage } from '../core/answer-schema.ts';

const tokenId = z.int({ error: 'expected a token id' }).min(0, 'expected a token id');
const promptForm = 'expected a text, an array of texts, an array of token ids, or an array of those';
const severalPrompts = {
  error: promptForm,
  empty: 'must not be empty',
  most: { count: 128, error: 'at most 128 prompts' },
};
const isTokenId = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;
const logprobsForm = 'expected a whole number from 0 to 5';
const bestForm = 'expected a whole number from 1 to 20';
const ids = list(tokenId, { error: promptForm, empty: 'must not be empty' }, isTokenId);

export const completionRequest = z
  .object(
    {
      model: text
        .nullish()
        .describe('The id of the resident model, from GET /v1/models. Default: that model.'),
      prompt: z
        .union([text, list(text, severalPrompts), ids, list(ids, severalPrompts)], { error: promptForm })
        .describe('Taken as it stands; special tokens written in it are read as tokens.'),
      suffix: text
        .nullish()
        .describe('The text behind the answer, which then fills the gap between the prompt and it.'),
      max_tokens: tokenLimit(0).describe("The answer's greatest length. Default 16."),
      n: answerCount,
      best_of: z
        .int({ error: bestForm })
        .min(1, bestForm)
        .max(20, bestForm)
        .nullish()
        .describe(
          'Makes so many answers and gives the `n` likeliest, by the mean of their log probabilities.',
        ),
      logprobs: z
        .int({ error: logprobsForm })
        .min(0, logprobsForm)
        .max(5, logprobsForm)
        .nullish()
        .describe(
          'Tell the log probability of each token and of so many of the likeliest; with `echo`, of the prompt too.',
        ),
      echo: flag.nullish().describe('Begin the answer with the prompt.'),
      ...samplingMembers,
      ...streamMembers,
      ...outputMembers,
      ...peerMembers,
    },
    { error: 'expected a JSON object' },
  )
  .meta({ id: 'CompletionRequest' });
export type CompletionRequest = z.infer<typeof completionRequest>;

const finishReason = z.enum(['stop', 'length']);
const head = {
  id: z.string(),
  object: z.literal('text_completion'),
  created: z.int(),
  model: z.string(),
  system_fingerprint: z.string(),
};

export const completion = z
  .object({
    ...head,
    choices: z.array(
      z.object({
        index: z.int(),
        text: z.string(),
        logprobs: textLogprobs.nullable(),
        finish_reason: finishReason,
      }),
    ),
    usage,
    timings,
  })
  .meta({ id: 'Completion' });
export type Completion = z.infer<typeof completion>;

export const completionChunk = z
  .object({
    ...head,
    choices: z.array(
      z.object({
        index: z.int(),
        text: z.string(),
        logprobs: textLogprobs.nullable(),
        finish_reason: finishReason.nullable(),
      }),
    ),
    usage: usage.nullable().optional().describe('Null but on the last chunk, and only with include_usage.'),
    timings: timings.optional().describe("On an answer's last chunk, with timings_per_token on all."),
    prompt_progress: promptProgress
      .optional()
      .describe('With return_progress, on chunks without text while the prompt is evaluated.'),
  })
  .meta({ id: 'CompletionChunk' });
export type CompletionChunk = z.infer<typeof completionChunk>;
