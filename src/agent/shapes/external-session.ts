import { z } from 'zod';
import { isRecord } from '../../util/json.ts';
import { nonEmptyText, text, tokenCounts } from './common.ts';

const boundedText = (most: number) => text.max(most, `at most ${most} characters`);
const maxLabels = 32;
const labelPattern = /^[\w./-]{1,64}$/;

/** Validated by hand: a record schema takes seconds for a body of a million members. */
const labels = z
  .custom<Readonly<Record<string, string>>>(isRecord, { error: 'expected an object of texts' })
  .meta({
    type: 'object',
    propertyNames: { type: 'string', pattern: labelPattern.source },
    additionalProperties: { type: 'string', maxLength: 256 },
    maxProperties: maxLabels,
  })
  .superRefine((labelMap: Readonly<Record<string, unknown>>, context) => {
    const names = Object.keys(labelMap);
    if (names.length > maxLabels) {
      context.addIssue(`at most ${maxLabels} labels`);
      return;
    }
    for (const name of names) {
      const value = labelMap[name];
      const message = !labelPattern.test(name)
        ? 'a label is named with 1 to 64 letters, digits and ._/-'
        : typeof value !== 'string' || value.length > 256
          ? 'expected a text of at most 256 characters'
          : undefined;
      if (message !== undefined) context.addIssue({ code: 'custom', path: [name.slice(0, 80)], message });
    }
  });

/** Registration of work that another program does. It grants nothing. */
export const externalRegistration = z
  .object(
    {
      harness: nonEmptyText.max(100, 'at most 100 characters').describe('Program that does the work.'),
      client: boundedText(200).optional().describe('For whom the work is done.'),
      title: boundedText(200).optional(),
      cwd: boundedText(4096).optional(),
      pid: z.int({ error: 'expected a whole number' }).min(1, 'must be 1 or more').optional(),
      labels: labels.optional(),
      idempotency_key: nonEmptyText
        .max(255, 'at most 255 characters')
        .optional()
        .describe(
          'Registering again with the same key gives the same session a new secret; the old secret becomes invalid.',
        ),
    },
    { error: 'expected an object' },
  )
  .meta({ id: 'ExternalSessionRegistration' });
export type ExternalRegistration = z.infer<typeof externalRegistration>;

export const externalHeartbeat = z
  .object(
    {
      status: z
        .enum(['running', 'waiting'], {
          error: "expected 'running' or 'waiting'; report the end with POST .../end",
        })
        .optional(),
      tokens: tokenCounts.optional().describe('Claimed by the client; totals of the session so far.'),
      last_event: boundedText(200).optional(),
    },
    { error: 'expected an object' },
  )
  .meta({ id: 'ExternalSessionHeartbeat' });
export type ExternalHeartbeat = z.infer<typeof externalHeartbeat>;

export const externalEnd = z
  .object(
    {
      outcome: z.enum(['completed', 'failed', 'cancelled'], {
        error: "expected 'completed', 'failed' or 'cancelled'",
      }),
      exit_code: z.int({ error: 'expected a whole number' }).optional(),
      summary: boundedText(500).optional(),
    },
    { error: 'expected an object' },
  )
  .meta({ id: 'ExternalSessionEnd' });
export type ExternalEnd = z.infer<typeof externalEnd>;
