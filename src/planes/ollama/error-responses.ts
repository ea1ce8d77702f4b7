import type { ResponseSpec } from '../../http/route.ts';
import { ollamaError } from '../../wires/ollama/error.ts';

const content = { 'application/json': ollamaError };

/** Error responses of every route that uses a model. */
export const modelErrorResponses: Readonly<Record<number, ResponseSpec>> = {
  404: { description: 'No such model, or one that is stored but not resident.', content },
  429: { description: 'The queue is full; `Retry-After` says when to retry.', content },
  500: { description: 'The model cannot be loaded.', content },
  503: { description: 'No model is resident, the model is loading, or the GPU was lost.', content },
};

/** Error responses of the routes for stored models. */
export const storeErrorResponses: Readonly<Record<number, ResponseSpec>> = {
  404: { description: 'No such model.', content },
  409: { description: 'The model is resident, or the name is taken.', content },
};
