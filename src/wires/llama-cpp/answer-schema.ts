import { z } from 'zod';
import { promptProgress, timings } from '../core/timings-schema.ts';

export const generationSettings = z
  .object({
    n_ctx: z.int(),
    model: z.string(),
    n_predict: z.int(),
    max_tokens: z.int(),
    seed: z.int().describe('The seed that was used.'),
    temperature: z.number(),
    top_k: z.int(),
    top_p: z.number(),
    min_p: z.number(),
    repeat_penalty: z.number(),
    repeat_last_n: z.int().describe('Scope of the penalties: -1 the whole text, 0 nothing.'),
    presence_penalty: z.number(),
    frequency_penalty: z.number(),
    dynatemp_range: z.number(),
    xtc_probability: z.number(),
    typical_p: z.number(),
    top_n_sigma: z.number(),
    dry_multiplier: z.number(),
    mirostat: z.int(),
    samplers: z.array(z.string()),
    stop: z.array(z.string()),
    ignore_eos: z.boolean(),
    logit_bias: z
      .array(z.object({ token: z.int(), bias: z.number().nullable() }))
      .describe('A bias of null bans the token: with `ignore_eos`, the end tokens.'),
    n_probs: z.int(),
    min_keep: z.int(),
    grammar: z.string(),
    n_indent: z.int(),
    t_max_predict_ms: z.int(),
    stream: z.boolean(),
    timings_per_token: z.boolean(),
    post_sampling_probs: z.boolean(),
    lora: z.array(z.never()),
  })
  .meta({ id: 'LlamaCppGenerationSettings' });
export type GenerationSettings = z.infer<typeof generationSettings>;

const token = { id: z.int(), token: z.string(), bytes: z.array(z.int()) };
const byModel = { ...token, logprob: z.number() };
const bySampling = { ...token, prob: z.number().describe('Present with post_sampling_probs.') };
const probabilities = z.array(
  z.union([
    z.object({ ...byModel, top_logprobs: z.array(z.object(byModel)) }),
    z.object({ ...bySampling, top_probs: z.array(z.object(bySampling)) }),
  ]),
);

const commonMembers = {
  index: z.int().describe('Index of the prompt, or of the answer where a prompt has several.'),
  content: z.string(),
  tokens: z.array(z.int()),
  id_slot: z.int().describe('Always -1: answers have no fixed slot.'),
  tokens_predicted: z.int(),
  tokens_evaluated: z.int().describe('Tokens of the prompt.'),
};

export const completionPart = z
  .object({
    ...commonMembers,
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
    ...commonMembers,
    stop: z.literal(true),
    model: z.string(),
    generation_settings: generationSettings,
    prompt: z.string(),
    has_new_line: z.boolean(),
    truncated: z.boolean().describe('True where the context was full.'),
    stop_type: z.enum(['none', 'eos', 'limit', 'word']),
    stopping_word: z.string(),
    tokens_cached: z.int().describe('Prompt tokens read from the cache.'),
    timings,
    completion_probabilities: probabilities.optional(),
  })
  .meta({ id: 'LlamaCppCompletion' });
export type CompletionAnswer = z.infer<typeof completionAnswer>;

/** An event of a stream; the last one of an answer has `stop: true`. */
export const completionEvent = z
  .union([completionPart, completionAnswer])
  .meta({ id: 'LlamaCppCompletionEvent' });

export const completionBody = z
  .union([completionAnswer, z.array(completionAnswer)])
  .meta({ id: 'LlamaCppCompletionBody' });
