import { z } from 'zod';
import { jsonObject } from '../../http/schema/json-object.ts';
import { list } from '../../http/schema/list.ts';
import { lenientBias, logitBias } from '../core/logit-bias.ts';
import { cacheMembers, postSamplingProbs, progressMembers } from '../core/timings-schema.ts';
import {
  optionalNumberInRange,
  isEmptyList,
  flag,
  isOneOf,
  refusedMember,
  stopTexts,
  text,
  optionalInteger,
} from '../core/members.ts';
import { samplers } from './samplers.ts';

const atMost = (max: number) => (value: unknown) => typeof value === 'number' && value <= max;
const samplerUnsupported = (sampler: string) => `the sampler ${sampler} is not supported; leave it out`;

/** Members that control an answer, on every route that generates one. `null` counts as absent. */
export const completionMembers = {
  model: text.nullish().describe('The id of the resident model. Default: that model.'),
  n_predict: optionalInteger(-2).describe(
    'Maximum tokens of the answer: -1 and -2 the remaining context, 0 only evaluates the prompt. Default -1.',
  ),
  max_tokens: optionalInteger(-2).describe('Alias of `n_predict`, which takes precedence.'),
  n_cmpl: optionalInteger(1, 128).describe('Number of answers per prompt. Default 1.'),
  n: optionalInteger(1, 128).describe('Alias of `n_cmpl`, which takes precedence.'),
  stream: flag.nullish().describe('Send the answer as server-sent events.'),
  temperature: optionalNumberInRange(-1, 100).describe(
    '0 and less select the most likely token. Default 0.8.',
  ),
  top_k: optionalInteger(-1, 2 ** 31).describe(
    'Keeps this many of the most likely tokens; 0 keeps all. Default 40.',
  ),
  top_p: optionalNumberInRange(0, 1).describe(
    'Keeps the most likely tokens up to this cumulative probability. Default 0.95.',
  ),
  min_p: optionalNumberInRange(0, 1).describe(
    "Keeps tokens with at least this fraction of the most likely token's probability. Default 0.05.",
  ),
  seed: z
    .number({ error: 'expected a whole number' })
    .refine(Number.isInteger, 'expected a whole number')
    .meta({ type: 'integer' })
    .nullish()
    .describe('The low 32 bits are used; -1 is random. Default -1.'),
  repeat_penalty: optionalNumberInRange(0.01, 10).describe(
    'Applies to prompt and answer; 1 disables it. Default 1.',
  ),
  repeat_last_n: optionalInteger(-1).describe(
    'Penalties always apply to the whole text; 0 disables them. Default -1.',
  ),
  presence_penalty: optionalNumberInRange(-10, 10).describe(
    'Applies to the answer; 0 disables it. Default 0.',
  ),
  frequency_penalty: optionalNumberInRange(-10, 10).describe(
    'Applies to the answer, for each occurrence. Default 0.',
  ),
  stop: stopTexts(64),
  ignore_eos: flag.nullish().describe("Continue after the model's end token."),
  logit_bias: logitBias(lenientBias),
  grammar: text.max(1_000_000, 'at most 1000000 characters').nullish().describe('A grammar in GBNF.'),
  json_schema: jsonObject('expected a JSON schema')
    .nullish()
    .describe('The answer is JSON that matches this schema.'),
  n_probs: optionalInteger(0, 20).describe(
    'Number of tokens to report log probabilities for at each position. Default 0.',
  ),
  logprobs: optionalInteger(0, 20).describe('Alias of `n_probs`, which takes precedence.'),
  post_sampling_probs: postSamplingProbs,
  return_tokens: flag.nullish().describe("Fill `tokens` with the answer's token ids."),
  response_fields: list(text, {
    error: 'expected an array of names such as generation_settings/n_predict',
    max: { count: 256, error: 'at most 256 fields' },
  })
    .nullish()
    .describe('Return only these members of the last object; nested members are separated by a slash.'),
  ...progressMembers,
  n_indent: optionalInteger(0, 1000).describe(
    'Ends the answer before a line with less indentation. Default 0: disabled.',
  ),
  t_max_predict_ms: optionalInteger(-1).describe(
    'Ends an answer that has a line break this many milliseconds after its first token. Default 0; 0 and -1 disable it.',
  ),
  samplers,
  ...cacheMembers,
  mirostat: refusedMember(samplerUnsupported('mirostat'), isOneOf(0)),
  dynatemp_range: refusedMember(samplerUnsupported('dynatemp'), isOneOf(0)),
  xtc_probability: refusedMember(samplerUnsupported('xtc'), isOneOf(0)),
  dry_multiplier: refusedMember(samplerUnsupported('dry'), isOneOf(0)),
  typical_p: refusedMember(samplerUnsupported('typical_p'), isOneOf(1)),
  top_n_sigma: refusedMember(samplerUnsupported('top_n_sigma'), atMost(0)),
  adaptive_target: refusedMember(
    samplerUnsupported('adaptive_p'),
    (value) => typeof value === 'number' && value < 0,
  ),
  min_keep: refusedMember('min_keep is not supported; leave it out', isOneOf(0, 1)),
  grammar_lazy: refusedMember('lazy grammars are not supported; leave it out', isOneOf(false)),
  lora: refusedMember('adapters are not supported; leave it out', isEmptyList),
  image_data: refusedMember('images cannot be read by this model; leave it out', isEmptyList),
};

export type CompletionOptions = z.infer<z.ZodObject<typeof completionMembers>>;

/** Moves the values of alias members to the primary members. */
export const resolveAliases = <Body extends CompletionOptions>(body: Body): Body => ({
  ...body,
  n_predict: body.n_predict ?? body.max_tokens,
  n_cmpl: body.n_cmpl ?? body.n,
  n_probs: body.n_probs ?? body.logprobs,
});
