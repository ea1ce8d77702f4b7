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
/** Error responses of every OpenAI route that uses the resident model. */
export const openaiRefusals = {
  404: openaiRefusal('No such model.'),
  429: openaiRefusal('The queue is full; `Retry-After` says when to retry.'),
  503: openaiRefusal('No model is resident, the model is loading, or the GPU was lost.'),
};
