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

/** llama.cpp's, also on `GET /health`. */
export const llamaError = z
  .object({
    error: z.object({
      code: z.int().describe('The HTTP status.'),
      message: z.string(),
      type: z.enum([
        'invalid_request_error',
        'authentication_error',
        'permission_error',
        'not_found_error',
        'exceed_context_size_error',
        'server_error',
        'not_supported_error',
        'unavailable_error',
      ]),
    }),
  })
  .meta({ id: 'LlamaCppError' });
