import { z } from 'zod';

const violations = z.array(z.object({ path: z.string(), message: z.string() })).optional();

export const hostError = z
  .object({ error: z.object({ code: z.string(), message: z.string(), violations }) })
  .meta({ id: 'HostError' });

/** OpenAI's: all four members are always there. */
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

/** llama.cpp's, on `GET /health`. */
export const healthError = z
  .object({ error: z.object({ code: z.int(), message: z.string(), type: z.string() }) })
  .meta({ id: 'HealthError' });
