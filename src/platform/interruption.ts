import { errorMessage } from '../util/error-message.ts';

/** A transient failure, such as a cut connection or a busy server. Retry. */
export class Interruption extends Error {}

/** The connection was open but received nothing until the idle limit. */
export class Stalled extends Interruption {}

/** Converts an error of `fetch` to an `Interruption` with the message of its cause. */
export function asInterruption(error: unknown): Interruption {
  if (error instanceof Interruption) return error;
  const cause = error instanceof Error ? (error.cause ?? error) : error;
  return new Interruption(errorMessage(cause));
}

/** HTTP statuses of transient failures. */
export const transientStatuses: ReadonlySet<number> = new Set([408, 425, 429, 500, 502, 503, 504]);
