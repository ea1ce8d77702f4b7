import { z } from 'zod';
import { unsupportedMark } from '../../http/violations.ts';
import { list } from '../../http/schema/list.ts';
import { efforts } from './effort.ts';

/** Members of request bodies that several wires share. */

export const text = z.string({ error: 'expected a text' });
export const name = text.min(1, 'must not be empty');
export const flag = z.boolean({ error: 'expected true or false' });

/** Refuses a member that would change the answer in a way that we cannot; `null` and `idle` values pass. */
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

/** The body of a request, under the name that it has in the OpenAPI document. */
export const requestBody = <Shape extends z.ZodRawShape>(id: string, shape: Shape) =>
  z.object(shape, { error: 'expected a JSON object' }).meta({ id });

export const between = (least: number, most: number) => {
  const error = `expected a number from ${least} to ${most}`;
  return z.number({ error }).min(least, error).max(most, error).nullish();
};

export const whole = (least: number, most = Number.MAX_SAFE_INTEGER) => {
  const isOpen = most === Number.MAX_SAFE_INTEGER;
  const error = `expected a whole number${isOpen ? `, at least ${least}` : ` from ${least} to ${most}`}`;
  return z.int({ error }).min(least, error).max(most, error).nullish();
};

/** A seed of 64 bits. */
export const seed = z
  .number({ error: 'expected a whole number of 64 bits' })
  .refine(
    (value) => Number.isInteger(value) && Math.abs(value) <= 2 ** 63,
    'expected a whole number of 64 bits',
  )
  .meta({ type: 'integer', format: 'int64' })
  .nullish();

/** Texts that end an answer. */
export function stops(most: number, one: z.ZodString = text) {
  const error = 'expected a text or an array of texts';
  const several = list(one, { error, most: { count: most, error: `at most ${most} stop texts` } });
  return z
    .union([one, several], { error })
    .nullish()
    .describe('Texts that end the answer and are not part of it.');
}

/** A member that another wire has for what this one calls `instead`: to ignore it would leave the answer unbound. */
export const foreign = (instead: string, idle?: (value: unknown) => boolean) =>
  refused(`this route does not know it; use \`${instead}\``, idle);

/** One of the values of a refused member that have no effect. */
export const isOneOf =
  (...idle: readonly unknown[]) =>
  (value: unknown): boolean =>
    idle.includes(value);
export const emptyList = (value: unknown): boolean => Array.isArray(value) && value.length === 0;
/** `response_format`, where it asks for nothing. */
export const plainFormat = (value: unknown): boolean => typeOf(value) === 'text';

export const effort = z.enum(efforts, { error: `expected one of ${efforts.join(', ')}` });

const verbosities = ['low', 'medium', 'high'] as const;
/** A hint of OpenAI's wires. */
export const verbosity = z
  .enum(verbosities, { error: `expected one of ${verbosities.join(', ')}` })
  .nullish()
  .describe('A hint that no model here follows; ask for short or long answers in the prompt.');

const nameForm = 'expected a name of up to 128 letters, digits, dots, underscores and dashes';
export const toolName = z.string({ error: nameForm }).regex(/^[\w.-]{1,128}$/, nameForm);

/** Every definition is part of the prompt; more of them fill any context. */
export const mostTools = { count: 512, error: 'at most 512 tools' };
export const toolList = <Tool extends z.ZodType>(tool: Tool) =>
  list(tool, { error: 'expected an array of tools', most: mostTools });

/** The `type` of what should have one, as a refusal shows it; empty where it has none. */
export function typeOf(value: unknown): string {
  const type = (value as { type?: unknown } | null | undefined)?.type;
  return typeof type === 'string' ? type.slice(0, 60) : '';
}

const tokenId = z.int({ error: 'expected a token id' }).min(0, 'expected a token id');
export const isTokenId = (value: unknown): value is number =>
  Number.isSafeInteger(value) && (value as number) >= 0;
/** @param words as those of a list */
export const idList = (words: Parameters<typeof list>[1]) => list(tokenId, words, isTokenId);

export const inputsForm = {
  error: 'expected a text, an array of texts, an array of token ids, or an array of those',
  empty: 'must not be empty',
};
export const tokenIds = idList(inputsForm);

/** A text, texts, the ids of tokens, or lists of those. @param one a text; @param most of a list */
export function textsOrIds(one: z.ZodString, most: { readonly count: number; readonly error: string }) {
  const several = { ...inputsForm, most };
  return z.union([one, list(one, several), tokenIds, list(tokenIds, several)], { error: inputsForm.error });
}
type TextsOrIds = string | readonly number[] | readonly (string | readonly number[])[];

/** Each text, or the ids of each. */
export const eachOf = (given: TextsOrIds): readonly (string | readonly number[])[] =>
  typeof given === 'string' || typeof given[0] === 'number'
    ? [given as string | readonly number[]]
    : (given as readonly (string | readonly number[])[]);
