import { z } from 'zod';
import { dictionary } from '../../http/schema/list.ts';
import { between, emptyList, flag, number, refused, seed, stops, text, whole } from './members.ts';
import { postSamplingProbs, progressMembers } from './timings-schema.ts';

/** A known member that is not supported. It is refused rather than ignored. */
export const unserved = (what: string, idle?: (value: unknown) => boolean) =>
  refused(`${what} is not supported; leave it out`, idle);

/** Sampling members of both completion routes. `null` counts as absent. */
export const samplingMembers = {
  temperature: between(0, 2).describe('0 always selects the most likely token. Default 1.'),
  top_p: between(0, 1).describe(
    'Keeps the most likely tokens up to this cumulative probability. Default 1: all.',
  ),
  top_k: whole(-1, 2 ** 31).describe(
    'Keeps this many of the most likely tokens; 0 or -1 keeps all. Default 0.',
  ),
  min_p: between(0, 1).describe(
    "Keeps tokens with at least this fraction of the most likely token's probability.",
  ),
  repetition_penalty: between(0.01, 10).describe(
    'Applies to prompt and answer; 1 disables it. Alias: `repeat_penalty`.',
  ),
  repeat_penalty: between(0.01, 10).describe('Alias of `repetition_penalty`.'),
  presence_penalty: between(-2, 2).describe('Applies to the answer; 0 disables it.'),
  frequency_penalty: between(-2, 2).describe('Applies to the answer, for each occurrence; 0 disables it.'),
  logit_bias: dictionary(
    {
      error: 'expected an object of token ids to numbers from -100 to 100',
      key: /^\d{1,9}$/,
      keyError: 'expected a token id',
    },
    number(-100, 100),
  )
    .nullish()
    .describe('Maps token ids to the amount added to the logit.'),
  seed: seed.describe(
    'The same seed and request give the same text; the low 32 bits are used. Default: random.',
  ),
  stop: stops(16, text.min(1, 'a stop text must not be empty')),
};

/** Members of other inference servers beyond OpenAI's, on both completion routes. */
export const peerMembers = {
  post_sampling_probs: postSamplingProbs,
  ignore_eos: flag.nullish().describe("Continue after the model's end token."),
  min_tokens: unserved('min_tokens', (value) => value === 0),
  stop_token_ids: unserved('stop_token_ids', emptyList),
  bad_words: unserved('bad_words', emptyList),
  include_stop_str_in_output: unserved('include_stop_str_in_output', (value) => value === false),
  use_beam_search: unserved('beam search', (value) => value === false),
  length_penalty: unserved('length_penalty', (value) => value === 1),
  typical_p: unserved('typical_p', (value) => value === 1),
  mirostat: unserved('mirostat', (value) => value === 0),
  dry_multiplier: unserved('dry_multiplier', (value) => value === 0),
  xtc_probability: unserved('xtc_probability', (value) => value === 0),
  dynatemp_range: unserved('dynatemp_range', (value) => value === 0),
  prompt_logprobs: unserved('prompt_logprobs'),
  truncate_prompt_tokens: unserved('truncate_prompt_tokens'),
  allowed_token_ids: unserved('allowed_token_ids', emptyList),
  stop_regex: unserved('stop_regex', emptyList),
  top_a: unserved('top_a', (value) => value === 0),
  tfs_z: unserved('tfs_z', (value) => value === 1),
};

export const answerCount = whole(1, 128).describe(
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
export const progressAsked = ({
  stream,
  timings_per_token,
  return_progress,
}: z.infer<z.ZodObject<typeof streamMembers>>) =>
  stream && (timings_per_token || return_progress) ? { progress: true } : {};

export type SamplingBody = z.infer<z.ZodObject<typeof samplingMembers>>;
