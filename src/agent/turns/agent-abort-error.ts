import { StoreError } from '../../store/index.ts';
import { AgentError } from '../errors.ts';
import type { AbortReason } from '../shapes/turn-event.ts';

/** Ends a task or step without an answer. The message is for people. */
export class AgentAbortError extends Error {
  readonly reason: AbortReason;
  constructor(reason: AbortReason, message: string) {
    super(message);
    this.name = 'AgentAbortError';
    this.reason = reason;
  }
}

/**
 * Maps the error that ended an agent's work. Unexpected errors are reported without internal details.
 * @param signals when one is aborted, its reason counts instead of the error; that of `host` may be an `AgentAbortError`
 */
export function toAgentAbortError(
  error: unknown,
  signals: { readonly host: AbortSignal; readonly deadline: AbortSignal },
  onFault: (error: unknown) => void,
): AgentAbortError {
  if (signals.host.aborted) {
    const reason: unknown = signals.host.reason;
    if (reason instanceof AgentAbortError) return reason;
    if (reason instanceof AgentError) return new AgentAbortError('error', reason.message);
    return new AgentAbortError('shutdown', 'The host was stopped.');
  }
  if (error instanceof AgentAbortError) return error;
  const timeoutError: unknown = signals.deadline.reason;
  if (timeoutError instanceof AgentAbortError) return timeoutError;
  if (error instanceof AgentError) return new AgentAbortError('error', error.message);
  if (error instanceof StoreError)
    return new AgentAbortError('error', `The host could not record what was done, because ${error.message}.`);
  onFault(error);
  return new AgentAbortError('error', 'The host failed; its log says why.');
}
