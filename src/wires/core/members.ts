import { z } from 'zod';
import { unsupportedIssue } from '../../http/violations.ts';
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
export function refusedMember(reason: string, hasNoEffect: (value: unknown) => boolean = () => false) {
  return z
    .unknown()
    .refine((value) => value === undefined || value === null || hasNoEffect(value), {
      error: reason,
      ...unsupportedIssue,
    })
    .optional()
    .describe(`Refused unless absent, null or without effect: ${reason}.`);
}

/** Schema of a request body, with its name in the OpenAPI document. */
export const requestBodySchema = <Shape extends z.ZodRawShape>(id: string, shape: Shape) =>
  z.object(shape, { error: 'expected a JSON object' }).meta({ id });

export const numberInRange = (min: number, max: number) => {
  const error = `expected a number from ${min} to ${max}`;
  return z.number({ error }).min(min, error).max(max, error);
};
export const optionalNumberInRange = (min: number, max: number) => numberInRange(min, max).nullish();

export const optionalInteger = (min: number, max = Number.MAX_SAFE_INTEGER) => {
  const isUnbounded = max === Number.MAX_SAFE_INTEGER;
  const error = `expected a whole number${isUnbounded ? `, at least ${min}` : ` from ${min} to ${max}`}`;
  return z.int({ error }).min(min, error).max(max, error).nullish();
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
export function stopTexts(max: number, element: z.ZodString = text) {
  const error = `expected a text or up to ${max} texts`;
  const several = list(element, { error, max: { count: max, error: `at most ${max} stop texts` } });
  return z
    .union([element, several], { error })
    .nullish()
    .describe('Texts that end the answer and are not part of it.');
}

/**
 * A member that another wire uses for this route's member `instead`. Ignoring it would leave the answer unconstrained.
 */
export const foreignMember = (instead: string, hasNoEffect?: (value: unknown) => boolean) =>
  refusedMember(`not supported on this route; use \`${instead}\``, hasNoEffect);

/** Whether a value of a refused member has no effect. */
export const isOneOf =
  (...ignoredValues: readonly unknown[]) =>
  (value: unknown): boolean =>
    ignoredValues.includes(value);
export const isEmptyList = (value: unknown): boolean => Array.isArray(value) && value.length === 0;
/** Whether a `response_format` asks for plain text. */
export const isPlainTextFormat = (value: unknown): boolean => typeOf(value) === 'text';

export const effort = z.enum(efforts, { error: `expected one of ${efforts.join(', ')}` });

const verbosities = ['low', 'medium', 'high'] as const;
/** OpenAI's verbosity hint. */
export const verbosity = z
  .enum(verbosities, { error: `expected one of ${verbosities.join(', ')}` })
  .nullish()
  .describe('Accepted and ignored; ask for short or long answers in the prompt.');

const nameError = 'expected a name of up to 128 letters, digits, dots, underscores and dashes';
export const toolName = z.string({ error: nameError }).regex(/^[\w.-]{1,128}$/, nameError);

/** Every tool definition is part of the prompt; more would fill any context. */
export const maxTools = { count: 512, error: 'at most 512 tools' };
export const toolList = <Tool extends z.ZodType>(tool: Tool) =>
  list(tool, { error: 'expected an array of tools', max: maxTools });

/** The `type` member of a value, for error messages; empty where there is none. */
export function typeOf(value: unknown): string {
  const type = (value as { type?: unknown } | null | undefined)?.type;
  return typeof type === 'string' ? type.slice(0, 60) : '';
}

const tokenId = z.int({ error: 'expected a token id' }).min(0, 'expected a token id');
export const isTokenId = (value: unknown): value is number =>
  Number.isSafeInteger(value) && (value as number) >= 0;
/** @param options as those of `list` */
export const tokenIdList = (options: Parameters<typeof list>[1]) => list(tokenId, options, isTokenId);

export const inputMessages = {
  error: 'expected a text, an array of texts, an array of token ids, or an array of those',
  empty: 'must not be empty',
};
export const tokenIds = tokenIdList(inputMessages);

/**
 * Schema of a text, an array of texts, an array of token ids, or an array of texts and token id arrays.
 * @param element schema of a text
 * @param max maximum length of the array
 */
export function textsOrIds(element: z.ZodString, max: { readonly count: number; readonly error: string }) {
  const several = { ...inputMessages, max };
  return z.union([element, list(element, several), tokenIds, list(tokenIds, several)], {
    error: inputMessages.error,
  });
}
export type TextsOrIds = string | readonly number[] | readonly (string | readonly number[])[];

/** Splits an input into its texts or token id arrays. */
export const splitInputs = (input: TextsOrIds): readonly (string | readonly number[])[] =>
  typeof input === 'string' || typeof input[0] === 'number'
    ? [input as string | readonly number[]]
    : (input as readonly (string | readonly number[])[]);
