/** Bodies of the admin API. */
import { z } from 'zod';
import { expected } from '../../http/schema/expected.ts';
import { strictObject } from '../../http/schema/strict.ts';
import { parsePeriod, parseTimeZone } from '../budgets/period.ts';
import { keySchema } from '../ledger/bodies.ts';
import { parseNanodollars, toUsd } from '../ledger/money.ts';

export const operatorErrorSchema = z
  .object({
    error: z.object({
      code: z.string(),
      message: z.string(),
      violations: z.array(z.object({ path: z.string(), message: z.string() })).optional(),
    }),
  })
  .meta({ id: 'Error' });

const usd = z
  .string({ error: expected('US dollars as decimal text, as "12.5"') })
  .transform((text, context) => {
    try {
      return parseNanodollars(text);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      context.issues.push({ code: 'custom', message: error.message, input: text });
      return 0n;
    }
  })
  .meta({ type: 'string' })
  .describe('US dollars as decimal text, exact to a nanodollar.');
const notNegative = usd.refine((nano) => nano >= 0n, {
  error: ({ input }) => `must not be negative, got '${toUsd(input as bigint)}'`,
});
const name = z.string({ error: expected('a text') }).min(1, 'must not be empty');
const keyLimit = z
  .int({ error: expected('a whole number') })
  .min(1, { error: expected('at least 1') })
  .nullish()
  .describe('null: as the configuration says.');
const keyMembers = {
  label: name.nullish(),
  cap_usd: notNegative.nullish().describe('Total spending limit; null: none.'),
  expires_at: z.iso
    .datetime({ offset: true, error: expected('a time in RFC 3339, as "2030-01-31T00:00:00Z"') })
    .refine((text) => Date.parse(text) > Date.now(), { error: expected('a time in the future') })
    .nullish()
    .describe('null: never.'),
  models: z
    .array(name, { error: expected('a list of ids of models') })
    .min(1, 'must name at least one model; null admits all')
    .nullish()
    .describe(
      'Ids or aliases of the only models that the key may use. An alias of one of the ids works, too. null: all.',
    ),
  requests_per_minute: keyLimit,
  tokens_per_minute: keyLimit,
  concurrency: keyLimit,
};
const flag = z.boolean({ error: expected('true or false') });

const parsed = (parse: (text: string) => unknown) =>
  z.string({ error: expected('a text') }).superRefine((text, context) => {
    try {
      parse(text);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      context.addIssue(error.message);
    }
  });
const period = parsed(parsePeriod).describe(
  '`day`, `week` or `month` of the calendar, or hours or days such as `12h` and `30d`.',
);
const zone = parsed(parseTimeZone);

export const createAccountBody = strictObject({
  name,
  credit_usd: notNegative.optional(),
  included_usd: notNegative.optional(),
  parent: name.optional().describe('Id or name of the account above, whose budgets limit this one, too.'),
}).meta({ id: 'NewAccount' });
export const changeAccountBody = strictObject({
  name: name.optional(),
  parent: name.nullish().describe('null: no account above.'),
  disabled: flag.optional(),
}).meta({ id: 'AccountChanges' });
export const budgetBody = strictObject({
  key: name.optional().describe('Id of a key; or an account.'),
  account: name.optional().describe('Id or name of an account, with all accounts below it; or a key.'),
  usd: notNegative.describe('0: only requests that cost nothing are admitted.'),
  per: period,
  time_zone: zone.optional().describe('Of day, week and month. Default UTC.'),
}).meta({ id: 'NewBudget' });
export const creditBody = strictObject({
  usd: usd.describe('Added to the balance; a negative amount corrects a mistake.'),
  note: name.optional(),
}).meta({ id: 'Credit' });
export const createKeyBody = strictObject({
  account: name.describe('Id or name of the account.'),
  ...keyMembers,
}).meta({ id: 'NewKey' });
export const changeKeyBody = strictObject({ ...keyMembers, disabled: flag.optional() }).meta({
  id: 'KeyChanges',
});
export const newKeySchema = keySchema
  .extend({ key: z.string().describe('Shown only in this answer: the database holds its hash.') })
  .meta({ id: 'CreatedKey' });
export const listOf = (schema: z.ZodType, id: string) => z.object({ data: z.array(schema) }).meta({ id });
export const statusSchema = z
  .object({
    requests_in_flight: z.int(),
    open_holds: z.int(),
    config: z
      .object({
        version: z.int(),
        is_newest: z.boolean(),
        refused: z
          .object({ at: z.string(), faults: z.array(z.string()) })
          .nullable()
          .describe('What the files say now cannot be used, for these reasons; null: it is in force.'),
      })
      .nullable(),
    breakers: z.array(z.object({ provider: z.string(), model: z.string(), open: z.boolean() })),
  })
  .meta({ id: 'GatewayStatus' });
export const clearedCacheSchema = z
  .object({ removed: z.int().describe('Number of stored answers.') })
  .meta({ id: 'ClearedCache' });

export const reloadSchema = z
  .object({ outcome: z.enum(['replaced', 'unchanged']), version: z.int() })
  .meta({ id: 'Reload' });
