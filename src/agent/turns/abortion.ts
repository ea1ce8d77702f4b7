import { StoreError } from '../../store/index.ts';
import { AgentError } from '../errors.ts';
import type { AbortReason } from '../shapes/turn-event.ts';

/** Ends a task or step without an answer. The message is for people. */
export class Abortion extends Error {
  readonly reason: AbortReason;
  constructor(reason: AbortReason, message: string) {
    super(message);
    this.name = 'AgentAbortError';
    this.reason = reason;
  }
}

/**
 * Maps the error that ended an agent's work. Unexpected errors are reported without internal details.
 * @param signals when one is aborted, its reason counts instead of the error
 */
export function toAbortion(
  error: unknown,
  signals: { readonly host: AbortSignal; readonly deadline: AbortSignal },
  onFault: (error: unknown) => void,
): Abortion {
  if (signals.host.aborted) {
    const reason: unknown = signals.host.reason;
    if (reason instanceof AgentError) return new Abortion('error', reason.message);
    return new Abortion('shutdown', 'The host was stopped.');
  }
  if (error instanceof Abortion) return error;
  const late: unknown = signals.deadline.reason;
  if (late instanceof Abortion) return late;
  if (error instanceof AgentError) return new Abortion('error', error.message);
  if (error instanceof StoreError)
    return new Abortion('error', `The host could not record what was done, because ${error.message}.`);
  onFault(error);
  return new Abortion('error', 'The host failed; its log says why.');
}
