import { z } from 'zod';
import type { Rack, Tombstone } from '../../recorder/types.ts';
import { racks } from '../../watch/index.ts';
import { envelopeOf } from './envelope.ts';
import { strict } from '../../http/schema/strict.ts';

const time = z.iso.datetime();
const count = z.int().min(0);
const content = z
  .enum(['none', 'metadata', 'full'], { error: "expected 'none', 'metadata' or 'full'" })
  .describe('What is kept of texts: nothing, their sizes and circumstances, or the texts.');
const rackId = z.enum(racks);

const rack = z.object({
  id: rackId,
  armed: z.boolean(),
  policy: z.object({
    content,
    retention: z.object({ days: count, bytes: count, events: count }).describe('The oldest events go first.'),
    redact: z.array(z.string()).describe('RE2; `@credentials` and `@emails` stand for sets of our own.'),
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
  events: count.describe('That were removed.'),
  bytes: count.describe('That the history took on the disk.'),
  from: time.nullable(),
  to: time.nullable(),
  verified: z.literal(true).describe('A read-back found nothing.'),
}) satisfies z.ZodType<Tombstone>;

export const rackAnswer = envelopeOf('RecorderRack', 'rack', rack);
export const racksAnswer = envelopeOf('RecorderRacks', 'rack', z.array(rack));
export const tombstoneAnswer = envelopeOf('RecorderTombstone', 'rack', tombstone);

/** What is absent stays. Which bounds and patterns are good, the recorder says. */
const bound = z.int({ error: 'expected a whole number' }).optional();
export const rackChange = strict(
  {
    armed: z.boolean({ error: 'expected true or false' }).optional(),
    policy: strict({
      content: content.optional(),
      retention: strict({ days: bound, bytes: bound, events: bound }).optional(),
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
