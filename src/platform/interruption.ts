import { errorMessage } from '../util/error-message.ts';

/** A failure that another attempt may mend: a cut connection, a busy server. */
export class Interruption extends Error {}

/** The connection was open and brought nothing until the idle limit. */
export class Stalled extends Interruption {}

/** Errors of `fetch`, whose cause says more, become interruptions. */
export function asInterruption(error: unknown): Interruption {
  if (error instanceof Interruption) return error;
  const cause = error instanceof Error ? (error.cause ?? error) : error;
  return new Interruption(errorMessage(cause));
}

/** Answers that may go away by themselves. */
export const transientStatuses: ReadonlySet<number> = new Set([408, 425, 429, 500, 502, 503, 504]);
