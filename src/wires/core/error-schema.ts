import { z } from 'zod';

export const violations = z.array(z.object({ path: z.string(), message: z.string() })).optional();

/** OpenAI's error body; all four members are always present. */
export const openaiError = z
  .object({
    error: z.object({
      message: z.string(),
      type: z.string(),
      param: z.string().nullable(),
      code: z.string().nullable(),
      violations,
    }),
  })
  .meta({ id: 'OpenAIError' });
