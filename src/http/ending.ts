import type { CompletionFacts, Ending } from '../watch/index.ts';
import { ClientGone, HttpError } from './error.ts';

/**
 * What an answer that did not come to its end was.
 * @param sent the status, where one was sent before it broke
 */
export function endingOf(
  broken: unknown,
  { firstTokenMs }: Pick<CompletionFacts, 'firstTokenMs'>,
  sent?: number,
): Ending {
  const said = sent === undefined ? {} : { status: sent };
  if (broken instanceof ClientGone) return { outcome: 'abandoned', code: 'client_gone', ...said };
  const { status, code = 'internal_error' } = broken instanceof HttpError ? broken : { status: 500 };
  // Who reads nothing for long is as good as gone.
  if (code === 'reader_stalled') return { outcome: 'abandoned', code, ...said };
  const isAskers = status < 500 || status === 501;
  const refused = isAskers && firstTokenMs === undefined;
  return { outcome: refused ? 'refused' : 'failed', status: sent ?? status, code };
}
