import type { CompletionFacts, Ending } from '../watch/index.ts';
import { ClientGone, HttpError } from './error.ts';

/**
 * The outcome of a response that did not complete.
 * @param sentStatus the status, where it was sent before the failure
 */
export function endingOf(
  broken: unknown,
  { firstTokenMs }: Pick<CompletionFacts, 'firstTokenMs'>,
  sent?: number,
): Ending {
  const said = sent === undefined ? {} : { status: sent };
  if (broken instanceof ClientGone) return { outcome: 'abandoned', code: 'client_gone', ...said };
  const { status, code = 'internal_error' } = broken instanceof HttpError ? broken : { status: 500 };
  // A client that stopped reading counts as disconnected.
  if (code === 'reader_stalled') return { outcome: 'abandoned', code, ...said };
  const isAskers = status < 500 || status === 501;
  const refused = isAskers && firstTokenMs === undefined;
  return { outcome: refused ? 'refused' : 'failed', status: sent ?? status, code };
}
