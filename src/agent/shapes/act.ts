import { z } from 'zod';
import { count, text, time } from './common.ts';

/** An entry of the action journal. */
export const act = z
  .object({
    seq: count,
    at: time,
    endpoint_id: text.describe('The host that acted.'),
    verb: text,
    target: text,
    by: text.describe('`operator`, `session:<id>`, `peer:<name>`, `local`, `agent:<name>` or `host`.'),
    outcome: z.enum(['applied', 'refused']),
    reason: text.optional(),
    note: text.optional(),
    details: z.unknown().optional(),
  })
  .meta({ id: 'Act' });
export type Act = z.infer<typeof act>;

export const acts = z.object({ acts: z.array(act) }).meta({ id: 'Acts' });
