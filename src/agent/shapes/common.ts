import { z } from 'zod';

/** Names of agents and workflows. */
export const namePattern = /^[a-z][a-z0-9_-]{0,63}$/;
export const nameRule =
  'expected a lower-case letter and then up to 63 lower-case letters, digits, dashes and underscores';
export const resourceName = z
  .string({ error: ({ input }) => (input === undefined ? `is missing: ${nameRule}` : nameRule) })
  .regex(namePattern, nameRule);

export const text = z.string({ error: 'expected a text' });
export const nonEmptyText = text.min(1, 'must not be empty');
export const count = z.int({ error: 'expected a whole number' }).min(0, 'must not be negative');
export const time = z.iso.datetime().describe('RFC 3339, UTC, milliseconds.');

export const globList = z.array(nonEmptyText.max(200, 'at most 200 characters'), {
  error: 'expected a list of texts',
});

/** Token counts. When the object is absent the counts are unknown, not zero. */
export const tokenCounts = z.object({ prompt: count, completion: count });
export type TokenCounts = z.infer<typeof tokenCounts>;

export const route = z.object({ engine: z.enum(['resident', 'gateway']), model: z.string() });
export type Route = z.infer<typeof route>;
