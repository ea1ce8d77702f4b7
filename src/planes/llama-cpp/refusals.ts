import type { AnswerSpec } from '../../http/route.ts';
import { llamaError } from '../../wires/llama-cpp/error.ts';

export const refusal = (description: string): AnswerSpec => ({
  description,
  content: { 'application/json': llamaError },
});

export const unavailable = { 503: refusal('No model is resident, or the model is loading.') };
