import type { Clock } from './clock.ts';
import { isZero, type KeepAlive } from './options-schema.ts';

/** The answer to a request without a prompt: the model is there. The host keeps it, also where it is to go. */
export const loadAnswer = (model: string, clock: Clock, keepAlive: KeepAlive, body: object): Response =>
  Response.json({
    model,
    created_at: clock.now(),
    ...body,
    done: true,
    done_reason: isZero(keepAlive) ? 'unload' : 'load',
    ...clock.loading(),
  });
