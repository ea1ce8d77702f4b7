import { ObserveError } from '../errors.ts';

/** Maximum size of a result in bytes. */
export const largestAnswer = 8 * 1024 * 1024;

export const overBudget = (budgetMs: number): ObserveError =>
  new ObserveError('over_budget', 'query_over_budget', `the query took more than ${Math.round(budgetMs)} ms`);

export const tooLarge = (rows: number): ObserveError =>
  new ObserveError(
    'over_budget',
    'answer_too_large',
    `the result is larger than ${largestAnswer / 1024 / 1024} MiB after ${rows} rows: select fewer columns or set a smaller limit`,
  );

export const unreadable = (message: string, cause?: unknown): ObserveError =>
  new ObserveError('unavailable', 'database_unavailable', message, { cause });

export const closed = (): ObserveError =>
  unreadable('the database is closed because the process is shutting down');
