import { z } from 'zod';
import type { ObserveQuery } from '../query/shape.ts';

/** A predefined query with parameters. */
export interface NamedQuestion<Shape extends z.ZodRawShape = z.ZodRawShape> {
  readonly name: string;
  readonly description: string;
  readonly parameters: z.ZodObject<Shape>;
  query(parameters: z.output<z.ZodObject<Shape>>): ObserveQuery;
}

export const defineQuestion = <Shape extends z.ZodRawShape>(
  name: string,
  {
    description,
    parameters,
    query,
  }: {
    readonly description: string;
    readonly parameters: Shape;
    readonly query: (parameters: z.output<z.ZodObject<Shape>>) => ObserveQuery;
  },
): NamedQuestion => ({
  name,
  description,
  parameters: z.strictObject(parameters),
  query,
});

type Condition = NonNullable<ObserveQuery['where']>[number];

/** Drops the conditions whose parameter is absent. */
export const definedConditions = (
  ...conditions: readonly (Condition | { readonly [K in keyof Condition]: Condition[K] | undefined })[]
): Condition[] => conditions.filter((condition): condition is Condition => condition.value !== undefined);

export const sinceCondition = (column: string, value: string): Condition => ({ column, op: 'gte', value });

const timeError =
  'expected a time such as 2026-01-31T12:00:00Z, or a time before now such as -15m, -24h or -7d';
const relativeTime = /^-\d{1,6}[smhd]$/;
const instant = z.iso.datetime({ offset: true });
/** Parameter for the start of the period. */
export const sinceParameter = (defaultValue: string) =>
  z
    .string(timeError)
    .refine((value) => relativeTime.test(value) || instant.safeParse(value).success, timeError)
    .default(defaultValue)
    .describe('Start of the period: RFC 3339, or a time before now such as -15m, -24h or -7d.');

export const textParameter = (description: string) =>
  z
    .string('expected a string')
    .min(1, 'must not be empty')
    .max(200, 'at most 200 characters')
    .optional()
    .describe(description);

export const bucketParameter = (defaultValue: 'hour' | 'day') =>
  z
    .enum(
      ['minute', 'ten_minutes', 'hour', 'day', 'month'],
      'expected minute, ten_minutes, hour, day or month',
    )
    .default(defaultValue)
    .describe('Length of the periods.');
