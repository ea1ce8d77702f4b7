import { z } from 'zod';
import {
  optionalNumberInRange,
  isEmptyList,
  flag,
  refusedMember,
  seed,
  stopTexts,
  text,
  optionalInteger,
} from './members.ts';
import { logitBias, strictBias } from './logit-bias.ts';
import { cacheMembers, postSamplingProbs, progressMembers } from './timings-schema.ts';

/** A known member that is not supported. It is refused rather than ignored. */
export const unsupportedMember = (feature: string, hasNoEffect?: (value: unknown) => boolean) =>
  refusedMember(`${feature} is not supported; leave it out`, hasNoEffect);

/** Sampling members of both completion routes. `null` counts as absent. */
export const samplingMembers = {
  temperature: optionalNumberInRange(0, 2).describe('0 always selects the most likely token. Default 1.'),
  top_p: optionalNumberInRange(0, 1).describe(
    'Keeps the most likely tokens up to this cumulative probability. Default 1: all.',
  ),
  top_k: optionalInteger(-1, 2 ** 31).describe(
    'Keeps this many of the most likely tokens; 0 or -1 keeps all. Default 0.',
  ),
  min_p: optionalNumberInRange(0, 1).describe(
    "Keeps tokens with at least this fraction of the most likely token's probability.",
  ),
  repetition_penalty: optionalNumberInRange(0.01, 10).describe(
    'Applies to prompt and answer; 1 disables it. Alias: `repeat_penalty`.',
  ),
  repeat_penalty: optionalNumberInRange(0.01, 10).describe('Alias of `repetition_penalty`.'),
  presence_penalty: optionalNumberInRange(-2, 2).describe('Applies to the answer; 0 disables it.'),
  frequency_penalty: optionalNumberInRange(-2, 2).describe(
    'Applies to the answer, for each occurrence; 0 disables it.',
  ),
  logit_bias: logitBias(strictBias),
  seed: seed.describe(
    'The same seed and request give the same text; the low 32 bits are used. Default: random.',
  ),
  stop: stopTexts(16, text.min(1, 'a stop text must not be empty')),
};

/** Members of other inference servers beyond OpenAI's, on both completion routes. */
export const peerMembers = {
  post_sampling_probs: postSamplingProbs,
  ...cacheMembers,
  ignore_eos: flag.nullish().describe("Continue after the model's end token."),
  min_tokens: unsupportedMember('min_tokens', (value) => value === 0),
  stop_token_ids: unsupportedMember('stop_token_ids', isEmptyList),
  bad_words: unsupportedMember('bad_words', isEmptyList),
  include_stop_str_in_output: unsupportedMember('include_stop_str_in_output', (value) => value === false),
  use_beam_search: unsupportedMember('beam search', (value) => value === false),
  length_penalty: unsupportedMember('length_penalty', (value) => value === 1),
  typical_p: unsupportedMember('typical_p', (value) => value === 1),
  mirostat: unsupportedMember('mirostat', (value) => value === 0),
  dry_multiplier: unsupportedMember('dry_multiplier', (value) => value === 0),
  xtc_probability: unsupportedMember('xtc_probability', (value) => value === 0),
  dynatemp_range: unsupportedMember('dynatemp_range', (value) => value === 0),
  prompt_logprobs: unsupportedMember('prompt_logprobs'),
  truncate_prompt_tokens: unsupportedMember('truncate_prompt_tokens'),
  allowed_token_ids: unsupportedMember('allowed_token_ids', isEmptyList),
  stop_regex: unsupportedMember('stop_regex', isEmptyList),
  top_a: unsupportedMember('top_a', (value) => value === 0),
  tfs_z: unsupportedMember('tfs_z', (value) => value === 1),
};

export const answerCount = optionalInteger(1, 128).describe(
  'Number of answers to the prompt, each sampled with its own seed. Default 1.',
);

export const streamMembers = {
  stream: flag.nullish().describe('Send the answer as server-sent events.'),
  stream_options: z
    .object({ include_usage: flag.nullish() }, { error: 'expected an object' })
    .nullish()
    .describe('With `include_usage`, a last chunk without choices carries the usage.'),
  ...progressMembers,
};

/** Requests progress events from the engine where the client asked for them. */
export const progressOption = ({
  stream,
  timings_per_token,
  return_progress,
}: z.infer<z.ZodObject<typeof streamMembers>>) =>
  stream && (timings_per_token || return_progress) ? { progress: true } : {};

/** The engine's option for `cache_prompt`. */
export const cacheOption = ({ cache_prompt }: { readonly cache_prompt?: boolean | null | undefined }) =>
  cache_prompt === false ? { ignoreCache: true } : {};

export type SamplingBody = z.infer<z.ZodObject<typeof samplingMembers>>;
