import { z } from 'zod';
import { text } from './common.ts';

export const controlAct = z
  .object({
    verb: text,
    target: text,
    by: text.describe('`operator` or `session:<id>`, by the credential that was accepted.'),
    outcome: z.enum(['applied', 'refused']),
    reason: text.optional(),
  })
  .meta({ id: 'ControlAct' });
export type ControlAct = z.infer<typeof controlAct>;
