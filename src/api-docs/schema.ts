import { z } from 'zod';

export const openapi = z.object({ openapi: z.literal('3.1.0') }).meta({ id: 'OpenApiDocument' });
export const htmlPage = z.string().meta({ id: 'HtmlPage' });
