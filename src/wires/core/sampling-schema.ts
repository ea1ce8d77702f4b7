import { z } from 'zod';
import { dictionary, list } from '../../http/schema/list.ts';
import { between, emptyList, flag, refused, seed, whole } from './members.ts';
import { postSamplingProbs, progressMembers } from './timings-schema.ts';

const topKForm = 'expected a whole number, at least 0; 0 or -1 keeps all';
const stopForm = 'expected a text or up to 16 texts';
const stopText = z.string({ error: 'expected a text' }).min(1, 'a stop text must not be empty');

/** A member that we know and do not serve: refused rather than ignored. */
export const unserved = (what: string, idle?: (value: unknown) => boolean) =>
  refused(`${what} is not supported; leave it out`, idle);

/** The members that steer sampling, the same on both completion routes. All may be null, which is absent. */
export const samplingMembers = {
  temperature: between(0, 2).describe('0 always takes the likeliest token. Default 1.'),
  top_p: between(0, 1).describe('Keeps the likeliest tokens up to this probability. Default 1: all.'),
  top_k: z
    .int({ error: topKForm })
    .min(-1, topKForm)
    .max(2 ** 31, 'expected a smaller number')
    .nullish()
    .describe('Keeps this many of the likeliest tokens. Default 0: all.'),
  min_p: between(0, 1).describe("Keeps tokens of at least this part of the likeliest token's probability."),
  repetition_penalty: between(0.01, 10).describe('Over prompt and answer; 1 is off. Also `repeat_penalty`.'),
  repeat_penalty: between(0.01, 10).describe('The same as `repetition_penalty`.'),
  presence_penalty: between(-2, 2).describe('Over the answer; 0 is off.'),
  frequency_penalty: between(-2, 2).describe('Over the answer, for each occurrence; 0 is off.'),
  logit_bias: dictionary(
    {
      error: 'expected an object of token ids to numbers from -100 to 100',
      key: /^\d{1,9}$/,
      keyError: 'expected a token id',
    },
    // Only the whole map may be null.
    between(-100, 100).unwrap().unwrap(),
  )
    .nullish()
    .describe('Token id to the amount added to its logit.'),
  seed: seed.describe(
    'The same seed and request give the same text; its low 32 bits count. Default: random.',
  ),
  stop: z
    .union(
      [stopText, list(stopText, { error: stopForm, most: { count: 16, error: 'at most 16 stop texts' } })],
      {
        error: stopForm,
      },
    )
    .nullish()
    .describe('Texts that end the answer and are not part of it.'),
};

/** What peers take beside OpenAI's members, on both completion routes. */
export const peerMembers = {
  post_sampling_probs: postSamplingProbs,
  ignore_eos: flag.nullish().describe("Go on after the model's end token."),
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
  'Answers to the same prompt, each drawn with a seed of its own. Default 1.',
);

export const streamMembers = {
  stream: flag.nullish().describe('Send the answer as server-sent events.'),
  stream_options: z
    .object({ include_usage: flag.nullish() }, { error: 'expected an object' })
    .nullish()
    .describe('With `include_usage` a last chunk without choices tells what the answers took.'),
  ...progressMembers,
};

/** Whether the engine has to tell how far it is. */
export const progressAsked = ({
  stream,
  timings_per_token,
  return_progress,
}: z.infer<z.ZodObject<typeof streamMembers>>) =>
  stream && (timings_per_token || return_progress) ? { progress: true } : {};

export type SamplingBody = z.infer<z.ZodObject<typeof samplingMembers>>;

export const topLogprobs = whole(0, 20);
