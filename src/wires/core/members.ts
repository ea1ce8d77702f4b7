import { z } from 'zod';
import { unsupportedMark } from '../../http/violations.ts';
import { list } from '../../http/schema/list.ts';
import { efforts } from './effort.ts';

/** Schemas of request members that several wires share. */

export const text = z.string({ error: 'expected a text' });
export const name = text.min(1, 'must not be empty');
export const flag = z.boolean({ error: 'expected true or false' });

/**
 * Schema of a known member that is not supported and would change the answer. `null` and values without effect are
 * accepted.
 */
export function refused(why: string, idle: (value: unknown) => boolean = () => false) {
  return z
    .unknown()
    .refine((value) => value === undefined || value === null || idle(value), {
      error: why,
      ...unsupportedMark,
    })
    .optional()
    .describe(`Refused unless absent, null or without effect: ${why}.`);
}

/** Schema of a request body, with its name in the OpenAPI document. */
export const requestBody = <Shape extends z.ZodRawShape>(id: string, shape: Shape) =>
  z.object(shape, { error: 'expected a JSON object' }).meta({ id });

export const number = (least: number, most: number) => {
  const error = `expected a number from ${least} to ${most}`;
  return z.number({ error }).min(least, error).max(most, error);
};
export const between = (least: number, most: number) => number(least, most).nullish();

export const whole = (least: number, most = Number.MAX_SAFE_INTEGER) => {
  const isOpen = most === Number.MAX_SAFE_INTEGER;
  const error = `expected a whole number${isOpen ? `, at least ${least}` : ` from ${least} to ${most}`}`;
  return z.int({ error }).min(least, error).max(most, error).nullish();
};

/** A 64-bit seed. */
export const seed = z
  .number({ error: 'expected a whole number of 64 bits' })
  .refine(
    (value) => Number.isInteger(value) && Math.abs(value) <= 2 ** 63,
    'expected a whole number of 64 bits',
  )
  .meta({ type: 'integer', format: 'int64' })
  .nullish();

/** Schema of stop texts. */
export function stops(most: number, one: z.ZodString = text) {
  const error = `expected a text or up to ${most} texts`;
  const several = list(one, { error, most: { count: most, error: `at most ${most} stop texts` } });
  return z
    .union([one, several], { error })
    .nullish()
    .describe('Texts that end the answer and are not part of it.');
}

/**
 * A member that another wire uses for this route's member `instead`. Ignoring it would leave the answer unconstrained.
 */
export const foreign = (instead: string, idle?: (value: unknown) => boolean) =>
  refused(`not supported on this route; use \`${instead}\``, idle);

/** Whether a value of a refused member has no effect. */
export const isOneOf =
  (...idle: readonly unknown[]) =>
  (value: unknown): boolean =>
    idle.includes(value);
export const emptyList = (value: unknown): boolean => Array.isArray(value) && value.length === 0;
/** Whether a `response_format` asks for plain text. */
export const plainFormat = (value: unknown): boolean => typeOf(value) === 'text';

export const effort = z.enum(efforts, { error: `expected one of ${efforts.join(', ')}` });

const verbosities = ['low', 'medium', 'high'] as const;
/** OpenAI's verbosity hint. */
export const verbosity = z
  .enum(verbosities, { error: `expected one of ${verbosities.join(', ')}` })
  .nullish()
  .describe('Accepted and ignored; ask for short or long answers in the prompt.');

const nameForm = 'expected a name of up to 128 letters, digits, dots, underscores and dashes';
export const toolName = z.string({ error: nameForm }).regex(/^[\w.-]{1,128}$/, nameForm);

/** Every tool definition is part of the prompt; more would fill any context. */
export const mostTools = { count: 512, error: 'at most 512 tools' };
export const toolList = <Tool extends z.ZodType>(tool: Tool) =>
  list(tool, { error: 'expected an array of tools', most: mostTools });

/** The `type` member of a value, for error messages; empty where there is none. */
export function typeOf(value: unknown): string {
  const type = (value as { type?: unknown } | null | undefined)?.type;
  return typeof type === 'string' ? type.slice(0, 60) : '';
}

const tokenId = z.int({ error: 'expected a token id' }).min(0, 'expected a token id');
export const isTokenId = (value: unknown): value is number =>
  Number.isSafeInteger(value) && (value as number) >= 0;
/** @param options as those of `list` */
export const idList = (words: Parameters<typeof list>[1]) => list(tokenId, words, isTokenId);

export const inputsForm = {
  error: 'expected a text, an array of texts, an array of token ids, or an array of those',
  empty: 'must not be empty',
};
export const tokenIds = idList(inputsForm);

/**
 * Schema of a text, an array of texts, an array of token ids, or an array of texts and token id arrays.
 * @param element schema of a text
 * @param max maximum length of the array
 */
export function textsOrIds(one: z.ZodString, most: { readonly count: number; readonly error: string }) {
  const several = { ...inputsForm, most };
  return z.union([one, list(one, several), tokenIds, list(tokenIds, several)], { error: inputsForm.error });
}
export type TextsOrIds = string | readonly number[] | readonly (string | readonly number[])[];

/** Splits an input into its texts or token id arrays. */
export const eachOf = (given: TextsOrIds): readonly (string | readonly number[])[] =>
  typeof given === 'string' || typeof given[0] === 'number'
    ? [given as string | readonly number[]]
    : (given as readonly (string | readonly number[])[]);
