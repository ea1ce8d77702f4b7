import type { ResponseSpec } from '../../http/route.ts';
import { llamaError } from '../../wires/llama-cpp/error.ts';

export const errorResponse = (description: string): ResponseSpec => ({
  description,
  content: { 'application/json': llamaError },
});

export const unavailableResponses = { 503: errorResponse('No model is resident, or the model is loading.') };
