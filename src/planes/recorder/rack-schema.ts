import { z } from 'zod';
import type { Rack, Tombstone } from '../../recorder/types.ts';
import { racks } from '../../tracing/index.ts';
import { envelopeSchema } from './envelope.ts';
import { strictObject } from '../../http/schema/strict.ts';

const time = z.iso.datetime();
const count = z.int().min(0);
const content = z
  .enum(['none', 'metadata', 'full'], { error: "expected 'none', 'metadata' or 'full'" })
  .describe('What is stored of texts: nothing, their metadata, or the full text.');
const rackId = z.enum(racks);

const rack = z.object({
  id: rackId,
  armed: z.boolean(),
  policy: z.object({
    content,
    retention: z
      .object({ days: count, bytes: count, events: count })
      .describe('Limits; the oldest events are removed first.'),
    redact: z
      .array(z.string())
      .describe('Patterns in RE2 syntax; `@credentials` and `@emails` are built-in sets.'),
  }),
  changed_at: time.nullable(),
  changed_by: z.string().nullable(),
  events: count,
  bytes: count,
  oldest: time.nullable(),
  newest: time.nullable(),
}) satisfies z.ZodType<Rack>;

const tombstone = z.object({
  id: z.string(),
  rack: rackId,
  at: time,
  by: z.string(),
  events: count.describe('Number of removed events.'),
  bytes: count.describe('Bytes of the history on disk.'),
  from: time.nullable(),
  to: time.nullable(),
  verified: z.literal(true).describe('Verified by reading back that nothing is left.'),
}) satisfies z.ZodType<Tombstone>;

export const rackAnswer = envelopeSchema('RecorderRack', 'rack', rack);
export const racksAnswer = envelopeSchema('RecorderRacks', 'rack', z.array(rack));
export const tombstoneAnswer = envelopeSchema('RecorderTombstone', 'rack', tombstone);

/** A partial change. The recorder validates bounds and patterns. */
const limit = z.int({ error: 'expected a whole number' }).optional();
export const rackChange = strictObject(
  {
    armed: z.boolean({ error: 'expected true or false' }).optional(),
    policy: strictObject({
      content: content.optional(),
      retention: strictObject({ days: limit, bytes: limit, events: limit }).optional(),
      redact: z
        .array(z.string({ error: 'expected a text' }), { error: 'expected a list of texts' })
        .optional(),
    }).optional(),
  },
  "an object with 'armed', 'policy' or both",
)
  .refine(({ armed, policy }) => armed !== undefined || policy !== undefined, {
    error: "expected 'armed', 'policy' or both",
  })
  .meta({ id: 'RecorderRackChange' });
