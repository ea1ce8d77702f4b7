import { z } from 'zod';
import { jsonObject } from '../../http/schema/json-object.ts';
import {
  optionalNumberInRange,
  isEmptyList,
  flag,
  isOneOf,
  refusedMember,
  seed,
  stopTexts,
  text,
  optionalInteger,
} from '../core/members.ts';

/** Members that name the model. */
export const modelMembers = {
  model: text
    .nullish()
    .describe('The resident model, by its id, or a stored one, by its name in GET /api/tags.'),
  name: text.nullish().describe('Older name of `model`, which takes precedence.'),
};

/** Ollama's options, with its defaults. Options for memory and threads do not change answers and are ignored. */
export const options = z.object(
  {
    num_predict: z
      .int({ error: 'expected a whole number' })
      .nullish()
      .describe(
        'Maximum tokens of the answer. Default, and for any number below 1: until the answer ends; -2 also ignores the end token.',
      ),
    num_ctx: optionalInteger(0).describe(
      'Maximum tokens of prompt and answer together, up to the context of the host; 0 means that context.',
    ),
    seed: seed.describe('The same seed and request give the same text. Default and -1: random.'),
    temperature: optionalNumberInRange(0, 100).describe(
      '0 always selects the most likely token. Default 0.8.',
    ),
    top_k: optionalInteger(-1, 2 ** 31).describe('0 or -1 keeps all. Default 40.'),
    top_p: optionalNumberInRange(0, 1).describe('1 keeps all. Default 0.9.'),
    min_p: optionalNumberInRange(0, 1).describe('0 keeps all. Default 0.'),
    repeat_penalty: optionalNumberInRange(0.01, 10).describe(
      'Applies to prompt and answer. Default 1: disabled.',
    ),
    repeat_last_n: optionalInteger(-1).describe('Penalties always apply to the whole text; 0 disables them.'),
    presence_penalty: optionalNumberInRange(-2, 2).describe('Applies to the answer. Default 0.'),
    frequency_penalty: optionalNumberInRange(-2, 2).describe(
      'Applies to the answer, for each occurrence. Default 0.',
    ),
    stop: stopTexts(64),
    mirostat: refusedMember('mirostat is not supported; use temperature and top_p', isOneOf(0)),
    typical_p: refusedMember('typical_p is not supported; use top_p or min_p', isOneOf(1, 0)),
    tfs_z: refusedMember('tfs_z is not supported; use top_p or min_p', isOneOf(1, 0)),
    num_keep: optionalInteger(-1).describe('No effect: text is never shifted out of the context.'),
  },
  { error: 'expected an object' },
);
export type Options = z.infer<typeof options>;

/** Names of the options that a created model may have. */
export const optionNames = new Set(Object.keys(options.shape));

const formatError = "expected 'json' or a JSON schema";
const format = z
  .union([z.literal(['json', ''], { error: formatError }), jsonObject(formatError)], { error: formatError })
  .nullish()
  .describe("Format of the answer: 'json' for any object, or a JSON schema.");
export type Format = z.infer<typeof format>;

const levels = ['low', 'medium', 'high'] as const;
const thinkError = `expected true, false or one of ${levels.join(', ')}`;
const think = z
  .union([z.boolean(), z.enum(levels, { error: thinkError })], { error: thinkError })
  .nullish()
  .describe("Whether and how much the model reasons first. Default: the template's own.");

const durationError = "expected seconds or a duration such as '5m'";
const duration = /^[-+]?(?:\d+(?:\.\d+)?(?:ns|us|µs|ms|s|m|h))+$|^[-+]?\d+$/;
export const keepAlive = z
  .union([z.number(), z.string().regex(duration, durationError)], { error: durationError })
  .nullish()
  .describe(
    'With --resident, 0 closes a model that a request loaded, once no request uses it. Otherwise no effect: models stay ' +
      'loaded; 0 without a prompt is answered as an unload.',
  );
export type KeepAlive = z.infer<typeof keepAlive>;

/** Whether a duration is zero, which means unload. */
export const isZeroDuration = (value: KeepAlive): boolean =>
  value !== null && value !== undefined && Number.parseFloat(String(value)) === 0;

export const optionsMember = options.nullish().describe('Sampling options and the length of the answer.');

export const images = refusedMember('this model reads text and no images; leave them out', isEmptyList);

/** Members that chat and generate share. */
export const answerMembers = {
  ...modelMembers,
  format,
  options: optionsMember,
  think,
  stream: flag.nullish().describe('Send the answer as lines of JSON while it is generated. Default true.'),
  keep_alive: keepAlive,
  logprobs: flag.nullish().describe('Report the log probability of each token of the answer.'),
  top_logprobs: optionalInteger(0, 20).describe(
    'With `logprobs`: number of most likely tokens to report at each position.',
  ),
  shift: flag.nullish().describe('No effect: an answer ends where the context ends.'),
};
