import type { Engine } from '../../engine/index.ts';
import { toHttpError } from '../resident.ts';

/** Refuses a request of many texts before it encodes them. @throws HttpError 429 where the queue is full */
export function requireQueueSpace(engine: Pick<Engine, 'requireQueueSpace'>): void {
  try {
    engine.requireQueueSpace();
  } catch (error) {
    throw toHttpError(error);
  }
}
