import { z } from 'zod';
import { openaiError, violations } from '../wires/core/error-schema.ts';

export { openaiError };

export const hostError = z
  .object({ error: z.object({ code: z.string(), message: z.string(), violations }) })
  .meta({ id: 'HostError' });

export const openaiRefusal = (description: string) => ({
  description,
  content: { 'application/json': openaiError },
});
/** Of every route of OpenAI's that asks the resident model. */
export const openaiRefusals = {
  404: openaiRefusal('No such model.'),
  429: openaiRefusal('The queue is full; `Retry-After` tells when to come back.'),
  503: openaiRefusal('No resident model, or it is loading, or the GPU was lost.'),
};
