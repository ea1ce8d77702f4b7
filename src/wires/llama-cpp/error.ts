import { z } from 'zod';
import type { Envelope } from '../../http/error.ts';
import { errorTypes, llamaCppErrorTypes } from '../core/error-types.ts';

/** llama.cpp's error body, also on `GET /health`. */
export const llamaError = z
  .object({
    error: z.object({
      code: z.int().describe('The HTTP status.'),
      message: z.string(),
      type: z.enum(llamaCppErrorTypes),
    }),
  })
  .meta({ id: 'LlamaCppError' });

/** llama.cpp's envelope: the numeric status and a matching type. */
export const llamaEnvelope: Envelope = ({ status, code, message }) => {
  const type = code === 'context_length_exceeded' ? 'exceed_context_size_error' : errorTypes(status).llamaCpp;
  return { error: { code: status, message, type } } satisfies z.infer<typeof llamaError>;
};
