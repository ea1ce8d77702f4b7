import { z } from 'zod';

export const health = z
  .object({ status: z.literal('ok'), planes: z.array(z.string()).describe('The planes that are mounted.') })
  .meta({ id: 'Health' });
