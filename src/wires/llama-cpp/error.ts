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
      n_prompt_tokens: z
        .int()
        .optional()
        .describe('With `exceed_context_size_error`: the tokens of the prompt, as far as they were counted.'),
      n_ctx: z.int().optional().describe('With `exceed_context_size_error`: those of the context.'),
    }),
  })
  .meta({ id: 'LlamaCppError' });

/** llama.cpp's envelope: the numeric status and a matching type. */
export const llamaEnvelope: Envelope = ({ status, code, message, exceeded }) => {
  const type = code === 'context_length_exceeded' ? 'exceed_context_size_error' : errorTypes(status).llamaCpp;
  const counts = exceeded && { n_prompt_tokens: exceeded.promptTokens, n_ctx: exceeded.contextLength };
  return { error: { code: status, message, type, ...counts } } satisfies z.infer<typeof llamaError>;
};
