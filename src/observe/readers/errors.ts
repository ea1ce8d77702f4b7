import { ObserveError } from '../errors.ts';

/** Maximum size of a result in bytes. */
export const maxResultBytes = 8 * 1024 * 1024;

export const queryTimeout = (budgetMs: number): ObserveError =>
  new ObserveError('over_budget', 'query_over_budget', `the query took more than ${Math.round(budgetMs)} ms`);

export const resultTooLarge = (rows: number): ObserveError =>
  new ObserveError(
    'over_budget',
    'answer_too_large',
    `the result is larger than ${maxResultBytes / 1024 / 1024} MiB after ${rows} rows: select fewer columns or set a smaller limit`,
  );

export const unavailable = (message: string, cause?: unknown): ObserveError =>
  new ObserveError('unavailable', 'database_unavailable', message, { cause });

export const databaseClosed = (): ObserveError =>
  unavailable('the database is closed because the process is shutting down');
