import { z } from 'zod';
import { promptProgress, timings } from '../turn/timings.ts';
import { generationSettings } from './settings.ts';

const token = { id: z.int(), token: z.string(), bytes: z.array(z.int()) };
const byModel = { ...token, logprob: z.number() };
const bySampling = { ...token, prob: z.number().describe('With post_sampling_probs.') };
const probabilities = z.array(
  z.union([
    z.object({ ...byModel, top_logprobs: z.array(z.object(byModel)) }),
    z.object({ ...bySampling, top_probs: z.array(z.object(bySampling)) }),
  ]),
);
export type Probabilities = z.infer<typeof probabilities>;

const head = {
  index: z.int().describe('Which prompt, or which answer where there are several to a prompt.'),
  content: z.string(),
  tokens: z.array(z.int()),
  id_slot: z.int().describe('-1: answers have no fixed place.'),
  tokens_predicted: z.int(),
  tokens_evaluated: z.int().describe("The prompt's tokens."),
};

export const completionPart = z
  .object({
    ...head,
    stop: z.literal(false),
    completion_probabilities: probabilities.optional(),
    timings: timings.optional(),
    prompt_progress: promptProgress
      .optional()
      .describe('With return_progress, while the prompt is evaluated.'),
  })
  .meta({ id: 'LlamaCppCompletionPart' });
export type CompletionPart = z.infer<typeof completionPart>;

export const completionAnswer = z
  .object({
    ...head,
    stop: z.literal(true),
    model: z.string(),
    generation_settings: generationSettings,
    prompt: z.string(),
    has_new_line: z.boolean(),
    truncated: z.boolean().describe('The context was full.'),
    stop_type: z.enum(['none', 'eos', 'limit', 'word']),
    stopping_word: z.string(),
    tokens_cached: z.int().describe("The prompt's tokens that were not computed again."),
    timings,
    completion_probabilities: probabilities.optional(),
  })
  .meta({ id: 'LlamaCppCompletion' });
export type CompletionAnswer = z.infer<typeof completionAnswer>;

/** With `stream`: the last of an answer has `stop: true`. */
export const completionEvent = z
  .union([completionPart, completionAnswer])
  .meta({ id: 'LlamaCppCompletionEvent' });

export const completionBody = z
  .union([completionAnswer, z.array(completionAnswer)])
  .meta({ id: 'LlamaCppCompletionBody' });
