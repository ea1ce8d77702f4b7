import type { z } from 'zod';
import type { ResponseSpec } from '../../http/route.ts';
import { operatorErrorSchema } from './admin-schemas.ts';

export const adminPrefix = '/admin/v1';

export const refusal = (description: string): ResponseSpec => ({
  description,
  content: { 'application/json': operatorErrorSchema },
});

const refusals = {
  400: refusal('The request is invalid; `violations` has every fault.'),
  401: refusal('The token is missing or no operator has it.'),
  403: refusal('The gateway has no tokens of operators.'),
};

/** The answers of an admin route. */
export const answers = (schema: z.ZodType, more: Readonly<Record<number, ResponseSpec>> = {}) => ({
  200: { description: 'Done.', content: { 'application/json': schema } },
  ...refusals,
  ...more,
});
