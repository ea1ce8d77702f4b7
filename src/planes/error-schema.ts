import { z } from 'zod';
import { openaiError, violations } from '../wires/core/error-schema.ts';

export { openaiError };

export const hostError = z
  .object({ error: z.object({ code: z.string(), message: z.string(), violations }) })
  .meta({ id: 'HostError' });

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
