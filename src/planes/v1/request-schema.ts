import { z } from 'zod';
import { unsupportedMark } from '../body.ts';
import { dictionary, list } from '../list.ts';

const between = (least: number, most: number) => {
  const error = `expected a number from ${least} to ${most}`;
  return z.number({ error }).min(least, error).max(most, error);
};
const whole = (least: number, error: string) => z.int({ error }).min(least, error);
const int64 = 2 ** 63;
const stopForm = 'expected a text or up to 16 texts';
const stopText = z.string({ error: 'expected a text' }).min(1, 'a stop text must not be empty');

/** Refuses a member that we know but do not serve yet, rather than ignore it; `null` and `idle` values pass. */
export function notYet(what: string, idle: (value: unknown) => boolean = () => false) {
  return z
    .unknown()
    .refine((value) => value === undefined || value === null || idle(value), {
      error: `${what} is not supported yet; leave it out`,
      ...unsupportedMark,
    })
    .optional()
    .describe('Not supported yet: refused unless absent, null or without effect.');
}

/** The members that steer sampling, the same on both completion routes. All may be null, which is absent. */
export const samplingMembers = {
  temperature: between(0, 2).nullish().describe('0 always takes the likeliest token. Default 1.'),
  top_p: between(0, 1)
    .nullish()
    .describe('Keeps the likeliest tokens up to this probability. Default 1: all.'),
  top_k: whole(-1, 'expected a whole number, at least 0; 0 or -1 keeps all')
    .max(2 ** 31, 'expected a smaller number')
    .nullish()
    .describe('Keeps this many of the likeliest tokens. Default 0: all.'),
  min_p: between(0, 1)
    .nullish()
    .describe("Keeps tokens of at least this part of the likeliest token's probability."),
  repetition_penalty: between(0.01, 10)
    .nullish()
    .describe('Over prompt and answer; 1 is off. Also `repeat_penalty`.'),
  repeat_penalty: between(0.01, 10).nullish().describe('The same as `repetition_penalty`.'),
  presence_penalty: between(-2, 2).nullish().describe('Over the answer; 0 is off.'),
  frequency_penalty: between(-2, 2).nullish().describe('Over the answer, for each occurrence; 0 is off.'),
  logit_bias: dictionary(
    {
      error: 'expected an object of token ids to numbers from -100 to 100',
      key: /^\d{1,9}$/,
      keyError: 'expected a token id',
    },
    between(-100, 100),
  )
    .nullish()
    .describe('Token id to the amount added to its logit.'),
  seed: z
    .number({ error: 'expected a whole number of 64 bits' })
    .refine((seed) => Number.isInteger(seed) && Math.abs(seed) <= int64, 'expected a whole number of 64 bits')
    .meta({ type: 'integer', format: 'int64' })
    .nullish()
    .describe('The same seed and request give the same text; its low 32 bits count. Default: random.'),
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

export const streamMembers = {
  stream: z
    .boolean({ error: 'expected true or false' })
    .nullish()
    .describe('Send the answer as server-sent events.'),
  stream_options: z
    .object(
      { include_usage: z.boolean({ error: 'expected true or false' }).nullish() },
      { error: 'expected an object' },
    )
    .nullish(),
};

export type SamplingBody = z.infer<z.ZodObject<typeof samplingMembers>>;

/** How many tokens an answer may have. */
export function tokenLimit(least: number) {
  const error = `expected a whole number, at least ${least}`;
  return z.int({ error }).min(least, error).nullish();
}
