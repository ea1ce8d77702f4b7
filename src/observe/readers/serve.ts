import { ObserveError } from '../errors.ts';
import { ReadOnlyDatabase } from './read-only-database.ts';
import type { Question, Reply, ThreadData } from './messages.ts';
import { plainReason } from '../../words/plain-reason.ts';

/** Request handler of the reader thread. */
export function serveReads(data: ThreadData): (question: Question) => Reply {
  const database = new ReadOnlyDatabase(data);
  return (question) => {
    try {
      return { rows: database.read(question) };
    } catch (error) {
      const { kind, code, message } =
        error instanceof ObserveError
          ? error
          : new ObserveError('unavailable', 'database_unavailable', `the database: ${plainReason(error)}`);
      return { failure: { kind, code, message } };
    }
  };
}
