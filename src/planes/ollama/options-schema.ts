import { z } from 'zod';
import { list } from '../../http/schema/list.ts';
import { jsonObject } from '../../http/schema/json-object.ts';
import { flag, isOneOf, refused, text } from '../../wires/core/members.ts';

const number = (least: number, most: number) => {
  const error = `expected a number from ${least} to ${most}`;
  return z.number({ error }).min(least, error).max(most, error);
};
const whole = (least: number) => {
  const error = `expected a whole number, at least ${least}`;
  return z.int({ error }).min(least, error);
};
const int64 = 2 ** 63;
const stopForm = 'expected a text or an array of texts';

/** Ollama's, with its defaults. Those about memory and threads change no answer and are not looked at. */
export const options = z.object(
  {
    num_predict: z
      .int({ error: 'expected a whole number' })
      .nullish()
      .describe(
        'Tokens of the answer. Default, and for any number below 1: until it ends; -2 also goes on after that.',
      ),
    num_ctx: whole(0)
      .nullish()
      .describe(
        'Tokens that prompt and answer may have together; what the host has is the most, and 0 means it.',
      ),
    seed: z
      .number({ error: 'expected a whole number of 64 bits' })
      .refine(
        (seed) => Number.isInteger(seed) && Math.abs(seed) <= int64,
        'expected a whole number of 64 bits',
      )
      .meta({ type: 'integer', format: 'int64' })
      .nullish()
      .describe('The same seed and request give the same text. Default, and for -1: random.'),
    temperature: number(0, 100).nullish().describe('0 always takes the likeliest token. Default 0.8.'),
    top_k: whole(-1)
      .max(2 ** 31, 'expected a smaller number')
      .nullish()
      .describe('0 or -1 keeps all. Default 40.'),
    top_p: number(0, 1).nullish().describe('1 keeps all. Default 0.9.'),
    min_p: number(0, 1).nullish().describe('0 keeps all. Default 0.'),
    repeat_penalty: number(0.01, 10).nullish().describe('Over prompt and answer. Default 1: off.'),
    repeat_last_n: whole(-1)
      .nullish()
      .describe('Penalties look at the whole text, whatever length is given here; 0 turns them off.'),
    presence_penalty: number(-2, 2).nullish().describe('Over the answer. Default 0.'),
    frequency_penalty: number(-2, 2).nullish().describe('Over the answer, for each occurrence. Default 0.'),
    stop: z
      .union([text, list(text, { error: stopForm, most: { count: 64, error: 'at most 64 stop texts' } })], {
        error: stopForm,
      })
      .nullish()
      .describe('Texts that end the answer and are not part of it.'),
    mirostat: refused('mirostat is not served; use temperature and top_p', isOneOf(0)),
    typical_p: refused('typical_p is not served; use top_p or min_p', isOneOf(1, 0)),
    tfs_z: refused('tfs_z is not served; use top_p or min_p', isOneOf(1, 0)),
    num_keep: whole(-1).nullish().describe('Without effect: no text is shifted out of the context.'),
  },
  { error: 'expected an object' },
);
export type Options = z.infer<typeof options>;

/** Names of options that a model may be created with. */
export const optionNames = new Set(Object.keys(options.shape));

const formatForm = "expected 'json' or a JSON schema";
export const format = z
  .union([z.literal(['json', ''], { error: formatForm }), jsonObject(formatForm)], { error: formatForm })
  .nullish()
  .describe("What the answer must look like: 'json', any object, or a JSON schema.");
export type Format = z.infer<typeof format>;

const levels = ['low', 'medium', 'high'] as const;
const thinkForm = `expected true, false or one of ${levels.join(', ')}`;
export const think = z
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

export const logprobMembers = {
  logprobs: flag.nullish().describe('Report the log probability of each token of the answer.'),
  top_logprobs: z
    .int({ error: 'expected a whole number from 0 to 20' })
    .min(0, 'expected a whole number from 0 to 20')
    .max(20, 'expected a whole number from 0 to 20')
    .nullish()
    .describe('With `logprobs`: so many of the likeliest tokens at each place.'),
};

export const images = refused(
  'this model reads text and no images; leave them out',
  (value) => Array.isArray(value) && value.length === 0,
);
export const stream = flag.nullish().describe('Lines of JSON as the answer is made. Default true.');
export const optionsMember = options.nullish().describe('How tokens are drawn, and how many.');
