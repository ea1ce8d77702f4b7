import { z } from 'zod';
import { jsonObject } from '../../http/schema/json-object.ts';
import { between, emptyList, flag, isOneOf, refused, seed, stops, text, whole } from '../core/members.ts';

/** How requests name a model. */
export const modelMembers = {
  model: text
    .nullish()
    .describe('The resident model, by its id, or a stored one, by its name in GET /api/tags.'),
  name: text.nullish().describe('The older name of `model`, which wins.'),
};

/** Ollama's, with its defaults. Those about memory and threads change no answer and are not looked at. */
export const options = z.object(
  {
    num_predict: z
      .int({ error: 'expected a whole number' })
      .nullish()
      .describe(
        'Tokens of the answer. Default, and for any number below 1: until it ends; -2 also goes on after that.',
      ),
    num_ctx: whole(0).describe(
      'Tokens that prompt and answer may have together; what the host has is the most, and 0 means it.',
    ),
    seed: seed.describe('The same seed and request give the same text. Default, and for -1: random.'),
    temperature: between(0, 100).describe('0 always takes the likeliest token. Default 0.8.'),
    top_k: whole(-1, 2 ** 31).describe('0 or -1 keeps all. Default 40.'),
    top_p: between(0, 1).describe('1 keeps all. Default 0.9.'),
    min_p: between(0, 1).describe('0 keeps all. Default 0.'),
    repeat_penalty: between(0.01, 10).describe('Over prompt and answer. Default 1: off.'),
    repeat_last_n: whole(-1).describe(
      'Penalties look at the whole text, whatever length is given here; 0 turns them off.',
    ),
    presence_penalty: between(-2, 2).describe('Over the answer. Default 0.'),
    frequency_penalty: between(-2, 2).describe('Over the answer, for each occurrence. Default 0.'),
    stop: stops(64),
    mirostat: refused('mirostat is not served; use temperature and top_p', isOneOf(0)),
    typical_p: refused('typical_p is not served; use top_p or min_p', isOneOf(1, 0)),
    tfs_z: refused('tfs_z is not served; use top_p or min_p', isOneOf(1, 0)),
    num_keep: whole(-1).describe('Without effect: no text is shifted out of the context.'),
  },
  { error: 'expected an object' },
);
export type Options = z.infer<typeof options>;

/** Names of options that a model may be created with. */
export const optionNames = new Set(Object.keys(options.shape));

const formatForm = "expected 'json' or a JSON schema";
const format = z
  .union([z.literal(['json', ''], { error: formatForm }), jsonObject(formatForm)], { error: formatForm })
  .nullish()
  .describe("What the answer must look like: 'json', any object, or a JSON schema.");
export type Format = z.infer<typeof format>;

const levels = ['low', 'medium', 'high'] as const;
const thinkForm = `expected true, false or one of ${levels.join(', ')}`;
const think = z
  .union([z.boolean(), z.enum(levels, { error: thinkForm })], { error: thinkForm })
  .nullish()
  .describe("Whether, or how much, the model thinks first. Default: the template's own.");

const durationForm = "expected seconds or a duration such as '5m'";
const duration = /^[-+]?(?:\d+(?:\.\d+)?(?:ns|us|µs|ms|s|m|h))+$|^[-+]?\d+$/;
export const keepAlive = z
  .union([z.number(), z.string().regex(duration, durationForm)], { error: durationForm })
  .nullish()
  .describe('The model stays resident whatever it says; 0 without a prompt is answered as an unload.');
export type KeepAlive = z.infer<typeof keepAlive>;

/** No time at all: an unload. */
export const isZero = (value: KeepAlive): boolean =>
  value !== null && value !== undefined && Number.parseFloat(String(value)) === 0;

export const optionsMember = options.nullish().describe('How tokens are drawn, and how many.');

export const images = refused('this model reads text and no images; leave them out', emptyList);

/** What chat and generate have both. */
export const answerMembers = {
  ...modelMembers,
  format,
  options: optionsMember,
  think,
  stream: flag.nullish().describe('Lines of JSON as the answer is made. Default true.'),
  keep_alive: keepAlive,
  logprobs: flag.nullish().describe('Report the log probability of each token of the answer.'),
  top_logprobs: whole(0, 20).describe('With `logprobs`: so many of the likeliest tokens at each place.'),
  shift: flag.nullish().describe('Without effect: an answer ends where the context does.'),
};
