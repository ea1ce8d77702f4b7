import { z } from 'zod';
import { openaiError, violations } from '../wires/core/error-schema.ts';

export { openaiError };

export const hostError = z
  .object({ error: z.object({ code: z.string(), message: z.string(), violations }) })
  .meta({ id: 'HostError' });

export const openaiErrorResponse = (description: string) => ({
  description,
  content: { 'application/json': openaiError },
});
/** Error responses of every OpenAI route that uses the resident model. */
export const openaiErrorResponses = {
  404: openaiErrorResponse('No such model.'),
  429: openaiErrorResponse('The queue is full; `Retry-After` says when to retry.'),
  503: openaiErrorResponse('No model is resident, the model is loading, or the GPU was lost.'),
};
