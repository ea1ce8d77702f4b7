import { ObserveError } from '../errors.ts';
import { ReadOnlyDatabase } from './read-only-database.ts';
import type { ReadRequest, ReadResponse, ReaderThreadData } from './messages.ts';
import { safeErrorReason } from '../../words/plain-reason.ts';

/** Request handler of the reader thread. */
export function serveReads(data: ReaderThreadData): (question: ReadRequest) => ReadResponse {
  const database = new ReadOnlyDatabase(data);
  return (question) => {
    try {
      return { rows: database.read(question) };
    } catch (error) {
      const { kind, code, message } =
        error instanceof ObserveError
          ? error
          : new ObserveError(
              'unavailable',
              'database_unavailable',
              `the database: ${safeErrorReason(error)}`,
            );
      return { failure: { kind, code, message } };
    }
  };
}
